"""Reads: one job, many jobs, counts, results."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import Corruption, NotFound
from holdfast.ids import ids
from holdfast.model.answers import Count, JobFilter
from holdfast.model.jobs import Ended, JobState
from holdfast.model.outcomes import Done, Failed, Retry
from holdfast.storage.ops.jobs import actions, queries

from .world import ERROR, World, spec


def listed(world: World, **wanted: object) -> list[str]:
    return [job.id for job in world.run(queries.list_jobs, JobFilter(**wanted))]  # type: ignore[arg-type]


def test_counts_tell_future_rows_from_what_could_start_now(world: World) -> None:
    owner = world.worker()
    world.enqueue(spec(), spec(), spec(delay=SECOND), spec(queue="mail", delay=SECOND), spec(queue="mail"))
    world.take(owner)
    assert sorted(world.run(queries.count_jobs), key=lambda c: (c.queue, c.state)) == [
        Count("default", "delayed", 1), Count("default", "ready", 1), Count("default", "running", 1),
        Count("mail", "delayed", 1), Count("mail", "ready", 1),
    ]  # fmt: skip


def test_a_future_row_is_counted_as_ready_the_moment_it_is_due_though_nobody_has_claimed(world: World) -> None:
    world.add(delay=5 * SECOND)
    world.clock.advance(5)
    assert world.run(queries.count_jobs) == [Count("default", "ready", 1)]


def test_a_retrying_job_counts_as_delayed(world: World) -> None:
    world.add()
    owner = world.worker()
    world.finish(owner, world.take(owner), Retry(5 * SECOND, ERROR))
    assert world.run(queries.count_jobs) == [Count("default", "delayed", 1)]


def test_every_state_is_counted(world: World) -> None:
    for state in JobState:
        world.place(state)
    found = [count for count in world.run(queries.count_jobs) if count.jobs == 1]
    assert sorted(count.state for count in found) == sorted(JobState)


def test_an_empty_store_counts_nothing(world: World) -> None:
    assert world.run(queries.count_jobs) == []


def test_jobs_are_listed_newest_first_by_page(world: World) -> None:
    made = ids.many(5)
    world.enqueue(*(spec(id=id) for id in made))
    first = listed(world, limit=3)
    assert first == made[:1:-1]
    assert listed(world, limit=3, before=first[-1]) == made[1::-1]


def test_each_filter_narrows_the_list_and_all_of_them_hold(world: World) -> None:
    a = world.add(queue="q", task="t", tenant="acme")
    b = world.add(queue="q", task="t")
    c = world.add(queue="q")
    d = world.place(JobState.FAILED).id
    assert listed(world, queue="q") == [c, b, a]
    assert listed(world, task="t") == [b, a]
    assert listed(world, tenant="acme") == [a]
    assert listed(world, state="failed") == [d]
    assert listed(world, state="ready", queue="q", task="t", tenant="") == [b]
    assert listed(world, state="failed", queue="q") == []


def test_outcomes_are_told_for_those_that_have_ended(world: World) -> None:
    done, failed, waiting = world.add(), world.add(), world.add()
    owner = world.worker()
    world.finish(owner, world.take(owner), Done("42"))
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    found = world.run(queries.outcomes_of, [done, failed, waiting, "unknown"])
    assert sorted(found, key=lambda ended: ended.id) == [
        Ended(done, JobState.SUCCEEDED, "42", None, None), Ended(failed, JobState.FAILED, None, ERROR, "permanent"),
    ]  # fmt: skip
    assert world.run(queries.outcomes_of, []) == []


def test_a_job_that_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(queries.get_job, "nobody")
    assert world.run(queries.attempts_of, "nobody") == []


def test_ids_with_quotes_and_percent_signs_are_only_text(world: World) -> None:
    for id in ["it's", 'a"b', "100%s", ":now", "a\\b", "ü—✓"]:
        world.add(id=id, explicit_id=True, payload=id)
        assert world.run(queries.get_job, id).payload == id
    assert len(world.run(queries.outcomes_of, ["it's", 'a"b'])) == 0


def test_queue_states_are_those_that_were_given(world: World) -> None:
    world.add()
    assert world.run(queries.queue_states) == {}
    world.run(actions.set_queue_state, "mail", "paused")
    world.run(actions.set_queue_state, "mail", "active")
    world.run(actions.set_queue_state, "bulk", "paused")
    assert world.run(queries.queue_states) == {"bulk": "paused", "mail": "active"}


def test_the_stores_clock_is_the_tests(world: World) -> None:
    assert world.run(queries.clock) == world.now
    world.clock.advance(3)
    assert world.run(queries.clock) == world.read(queries.clock) == world.now


def test_a_stored_state_that_no_version_knows_is_corruption(each_store: World) -> None:
    if each_store.backend == "postgres":
        each_store.sql("alter table holdfast_live drop constraint holdfast_live_check2")
    else:
        each_store.sql("pragma ignore_check_constraints = on")
    try:
        job_id = each_store.add()
        each_store.sql("update holdfast_live set state = 'odd', due = null where id = :id", id=job_id)
        with pytest.raises(Corruption):
            each_store.job(job_id)
    finally:
        each_store.wipe()
        if each_store.backend == "postgres":
            states = ", ".join(f"'{state}'" for state in JobState if not state.is_terminal)
            check = f"constraint holdfast_live_check2 check (state in ({states}) or finished_at is not null)"
            each_store.sql(f"alter table holdfast_live add {check}")
        else:
            each_store.sql("pragma ignore_check_constraints = off")
