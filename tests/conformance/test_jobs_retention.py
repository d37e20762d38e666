"""Retention: only what has ended, long enough ago, and is needed by nobody."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Retry
from holdfast.model.queues import QueueRecord
from holdfast.model.signals import Wait
from holdfast.rules.retention import DAY, Retention, with_queues
from holdfast.storage.ops import audit
from holdfast.storage.ops.jobs import actions, retention
from holdfast.storage.port import Op

from .waiting_kit import suspended, waiter
from .world import ERROR, World, spec

ENDED = [state for state in JobState if state.is_terminal]
LIVE = [state for state in JobState if not state.is_terminal]


@pytest.mark.parametrize("state", ENDED)
def test_what_ended_long_enough_ago_is_deleted_with_its_history(world: World, state: JobState) -> None:
    placed = world.place(state)
    world.clock.advance(10)
    assert world.run(retention.prune_jobs, [placed.id], 10 * SECOND + 1) == 0
    assert world.run(retention.prune_jobs, [placed.id], 10 * SECOND) == 1
    assert world.jobs() == 0
    assert world.history(placed.id) == []


@pytest.mark.parametrize("state", LIVE)
def test_what_is_live_is_never_deleted_however_old_it_is(world: World, state: JobState) -> None:
    placed = world.place(state)
    world.clock.advance(10 * 365 * 86_400)
    before = world.row(placed.id)
    assert world.run(retention.page_of_ended, 0, 0) == []
    assert world.run(retention.prune_jobs, [placed.id], 0) == 0
    assert world.row(placed.id) == before


def test_an_old_job_that_ended_just_now_stays(world: World) -> None:
    world.add()
    owner = world.worker()
    job = world.take(owner)
    world.clock.advance(365 * 86_400)
    world.finish(owner, job, Done("1"))
    assert world.run(retention.prune_jobs, [job.id], SECOND) == 0


def test_a_job_that_was_replayed_after_it_was_chosen_stays(world: World) -> None:
    placed = world.place(JobState.FAILED)
    world.clock.advance(10)
    ((chosen, *_),) = world.run(retention.page_of_ended, 0, SECOND)
    world.run(actions.retry, placed.id)
    assert world.run(retention.prune_jobs, [chosen], SECOND) == 0
    assert world.job(placed.id).state is JobState.READY


def test_a_job_that_a_dedupe_window_still_names_stays_until_it_closes(world: World) -> None:
    placed = world.place(JobState.SUCCEEDED, key="k", until="window", window=100 * SECOND)
    world.clock.advance(50)
    assert world.run(retention.prune_jobs, [placed.id], 0) == 0
    assert world.enqueue(spec(key="k", until="window", window=SECOND))[0].id == placed.id
    world.clock.advance(51)
    assert world.run(retention.prune_jobs, [placed.id], 0) == 1


def test_the_attempts_of_other_jobs_stay(world: World) -> None:
    kept, gone = world.add(), world.place(JobState.FAILED)
    owner = world.worker()
    world.finish(owner, world.take(owner), Retry(SECOND, ERROR))
    world.run(retention.prune_jobs, [gone.id], 0)
    assert len(world.history(kept)) == 1


def test_a_page_has_what_ended_after_an_instant_oldest_first(world: World) -> None:
    ends = []
    for state in (JobState.FAILED, JobState.SUCCEEDED, JobState.CANCELLED):
        ends.append(world.place(state))
        world.clock.advance(1)
    rows = world.run(retention.page_of_ended, 0, SECOND)
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (placed.id, placed.queue, state)
        for placed, state in zip(ends, ("failed", "succeeded", "cancelled"), strict=True)
    ]
    assert [row[0] for row in world.run(retention.page_of_ended, rows[0][3], 2 * SECOND)] == [ends[1].id]


def test_a_result_can_be_forgotten_while_its_job_is_kept(world: World) -> None:
    placed, failed = world.place(JobState.SUCCEEDED), world.place(JobState.FAILED)
    world.clock.advance(5)
    assert world.run(retention.prune_results, [placed.id, failed.id], 6 * SECOND) == 0
    assert world.run(retention.prune_results, [placed.id, failed.id], 5 * SECOND) == 1
    assert (world.job(placed.id).state, world.job(placed.id).result) == (JobState.SUCCEEDED, None)
    assert world.job(failed.id).error == ERROR


def test_a_result_that_a_suspended_job_waits_for_is_kept_with_its_job(world: World) -> None:
    first, second = waiter(world), waiter(world)
    suspended(world, Wait(key="wait:job#1", reason="jobs", jobs=(first.id, second.id)))
    world.finish(first.owner, first.claimed(), Done("1"))
    world.clock.advance(365 * 86_400)
    assert world.run(retention.prune_results, [first.id], 0) == 0
    assert world.run(retention.prune_jobs, [first.id], 0) == 0
    assert world.job(first.id).result == "1"
    world.finish(second.owner, second.claimed(), Done("2"))
    assert world.run(retention.prune_results, [first.id], 0) == 1
    assert world.run(retention.prune_jobs, [first.id], 0) == 1


def test_windows_that_have_closed_and_old_records_go(world: World) -> None:
    world.add(key="a", until="window", window=SECOND)
    world.add(key="b", until="window", window=60 * SECOND)
    world.run(audit.audit, actor="ada", action="queue.pause", target="mail")
    world.clock.advance(30)
    world.run(audit.audit, actor="ada", action="queue.resume", target="mail")
    assert world.run(retention.prune_windows) == 1
    assert world.run(retention.prune_audit, 30 * SECOND) == 1
    assert world.sql("select action from holdfast_audit") == [("queue.resume",)]
    assert world.sql("select count(*) from holdfast_dedupe") == [(1,)]


def test_a_queue_has_the_last_word_on_its_own_jobs() -> None:
    queue = QueueRecord("mail", keep_succeeded=0, keep_result=5)
    rules = with_queues(Retention(), [queue, QueueRecord("bulk", keep_failed=DAY)])
    assert (rules.kept("mail", "succeeded"), rules.kept("mail", "failed")) == (0, 30 * DAY)
    assert (rules.kept("bulk", "succeeded"), rules.kept("bulk", "failed")) == (7 * DAY, DAY)
    assert rules.spans == [0, DAY, 7 * DAY, 30 * DAY]
    assert rules.results == {"mail": 5}


def test_how_many_a_queue_has_over_its_cap_and_which_go_first(world: World) -> None:
    owner = world.worker()
    for _ in range(4):
        world.add()
        world.finish(owner, world.take(owner), Done("1"))
        world.clock.advance(1)
    world.place(JobState.SUCCEEDED)
    assert world.read(retention.over_cap, "default", 3) == 1
    assert world.read(retention.over_cap, "default", 4) == world.read(retention.over_cap, "nobody", 0) == 0
    rows = world.read(retention.page_of_evicted, "default", "succeeded", 0, 2)
    assert [ended for _, ended in rows] == sorted(ended for _, ended in rows)
    (later,) = world.read(retention.page_of_evicted, "default", "succeeded", rows[1][1], 10)[:1]
    assert later == rows[1]
    assert world.read(retention.page_of_evicted, "default", "failed", 0, 2) == []


def test_space_is_given_back_in_steps_where_much_of_a_file_is_empty(each_store: World) -> None:
    world = each_store
    assert world.run(retention.wastes_space) is False
    if world.backend == "sqlite" and world.is_on_disk:
        text = "x" * 100_000
        world.enqueue(*(spec(payload=text) for _ in range(300)))
        world.sql("delete from holdfast_job")
        free = world.sql("select freelist_count from pragma_freelist_count")[0][0]
        assert world.run(retention.wastes_space) is True
        world.store.write(Op(retention.give_back_space))
        assert world.sql("select freelist_count from pragma_freelist_count")[0][0] < free
