"""One job at a time holds a dedupe key: how long it holds it, and what becomes of a twin."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import DuplicateJob
from holdfast.model.actions import Action, Order
from holdfast.model.jobs import Enqueued, JobState
from holdfast.model.outcomes import Done, Failed, Parked, Released, Rerouted, Retry, Snoozed
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import actions, enqueue, retention
from holdfast.storage.port import Op
from tests.patience import SOON

from .racing import all_at_once, aside, await_blocked, open_transaction
from .world import ERROR, World, spec


def test_a_twin_of_a_waiting_job_gets_the_winners_id_and_changes_nothing(world: World) -> None:
    winner = world.add(key="k", payload="1")
    before = world.row(winner)
    assert world.enqueue(spec(key="k", payload="2", priority=9)) == [Enqueued(winner, created=False)]
    assert world.row(winner) == before
    assert world.jobs() == 1


@pytest.mark.parametrize("state", [JobState.READY, JobState.RUNNING, JobState.BLOCKED, JobState.SUSPENDED])
def test_a_key_is_held_in_every_live_state(world: World, state: JobState) -> None:
    winner = world.place(state, key="k").id
    assert world.enqueue(spec(key="k")) == [Enqueued(winner, created=False)]


@pytest.mark.parametrize("state", [s for s in JobState if s.is_terminal and s is not JobState.SKIPPED])
def test_a_key_is_free_again_once_its_job_has_ended(world: World, state: JobState) -> None:
    first = world.place(state, key="k").id
    second = world.add(key="k")
    assert second != first
    assert world.job(second).state is JobState.READY


def test_a_retrying_job_keeps_its_key(world: World) -> None:
    first, owner = world.add(key="k"), world.worker()
    world.finish(owner, world.take(owner), Retry(SECOND, ERROR))
    assert world.enqueue(spec(key="k")) == [Enqueued(first, created=False)]


def test_a_forced_cancel_and_a_requested_one_that_is_answered_free_the_key(world: World) -> None:
    placed = world.place(JobState.RUNNING, key="k")
    world.run(actions.cancel, placed.id, force=True)
    second = world.place(JobState.RUNNING, key="k")
    world.run(actions.cancel, second.id)
    assert world.enqueue(spec(key="k")) == [Enqueued(second.id, created=False)]
    world.lose(second.owner)
    assert world.enqueue(spec(key="k"))[0].created


def test_deleting_a_job_frees_its_key(world: World) -> None:
    world.run(actions.delete, world.add(key="k"))
    assert world.enqueue(spec(key="k"))[0].created


# -- scope and tenant


def test_the_same_key_in_two_scopes_is_two_jobs(world: World) -> None:
    answers = world.enqueue(spec(key="k", scope="a"), spec(key="k", scope="b"))
    assert [answer.created for answer in answers] == [True, True]


def test_two_tasks_in_one_scope_share_its_keys(world: World) -> None:
    first = world.add(key="k", task="a", scope="shared")
    assert world.enqueue(spec(key="k", task="b", scope="shared")) == [Enqueued(first, created=False)]


def test_tenants_never_meet_each_others_keys(world: World) -> None:
    answers = world.enqueue(spec(key="k", tenant="acme"), spec(key="k", tenant="other"), spec(key="k"))
    assert [answer.created for answer in answers] == [True, True, True]


def test_parts_of_a_key_do_not_run_into_each_other(world: World) -> None:
    parts = [("t", "ab", "c"), ("t", "a", "bc"), ("ta", "b", "c")]
    answers = world.enqueue(*(spec(tenant=tenant, scope=scope, key=key) for tenant, scope, key in parts))
    assert [answer.created for answer in answers] == [True, True, True]


# -- until


def test_until_start_frees_the_key_at_the_claim(world: World) -> None:
    first, owner = world.add(key="k", until="start"), world.worker()
    assert world.enqueue(spec(key="k", until="start")) == [Enqueued(first, created=False)]
    assert world.take(owner).id == first
    assert world.enqueue(spec(key="k", until="start"))[0].created


def test_until_start_lets_the_first_finish_beside_its_twin(world: World) -> None:
    owner = world.worker()
    world.add(key="k", until="start")
    job = world.take(owner)
    world.add(key="k", until="start")
    world.finish(owner, job, Retry(0, ERROR))
    assert world.take(owner).id == job.id


def test_until_failure_lets_a_newer_twin_supersede_a_retrying_job(world: World) -> None:
    first, owner = world.add(key="k", until="failure"), world.worker()
    job = world.take(owner)
    assert world.enqueue(spec(key="k", until="failure")) == [Enqueued(first, created=False)]
    world.finish(owner, job, Retry(60 * SECOND, ERROR))
    before = world.job(first).epoch
    second = world.add(key="k", until="failure")
    old = world.job(first)
    assert (second != first, old.state, old.reason, old.epoch) == (True, JobState.FAILED, "superseded", before + 1)
    assert old.finished_at == world.now
    assert world.job(second).state is JobState.READY


def test_until_failure_still_holds_while_the_job_only_snoozes_or_was_handed_back(world: World) -> None:
    first, owner = world.add(key="k", until="failure"), world.worker()
    world.finish(owner, world.take(owner), Snoozed(0))
    assert world.enqueue(spec(key="k", until="failure")) == [Enqueued(first, created=False)]
    world.finish(owner, world.take(owner), Released("shutdown"))
    assert world.enqueue(spec(key="k", until="failure")) == [Enqueued(first, created=False)]


def test_until_failure_holds_while_the_retry_runs(world: World) -> None:
    first, owner = world.add(key="k", until="failure"), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.take(owner)
    assert world.enqueue(spec(key="k", until="failure")) == [Enqueued(first, created=False)]


def test_a_window_outlives_the_job_that_opened_it(world: World) -> None:
    first, owner = world.add(key="k", until="window", window=60 * SECOND), world.worker()
    world.finish(owner, world.take(owner), Done("1"))
    world.clock.advance(59)
    assert world.enqueue(spec(key="k", until="window", window=60 * SECOND)) == [Enqueued(first, created=False)]
    assert world.enqueue(spec(key="k")) == [Enqueued(first, created=False)]
    world.clock.advance(1)
    assert world.enqueue(spec(key="k", until="window", window=60 * SECOND))[0].created


def test_a_window_ends_with_the_job_that_opened_it_where_somebody_deletes_that(world: World) -> None:
    twin = {"key": "k", "until": "window", "window": 60 * SECOND}
    first, owner = world.add(**twin), world.worker()
    world.finish(owner, world.take(owner), Done("1"))
    world.run(actions.delete, first)

    (second,) = world.enqueue(spec(**twin))
    assert second.created
    assert world.enqueue(spec(**twin)) == [Enqueued(second.id, created=False)]
    world.run(actions.delete, second.id)
    third, fourth = world.enqueue(spec(**twin), spec(**twin))
    assert (third.created, fourth) == (True, Enqueued(third.id, created=False))


def test_a_window_that_ends_before_its_job_leaves_the_key_with_the_job(world: World) -> None:
    first = world.add(key="k", until="window", window=SECOND)
    world.clock.advance(5)
    assert world.enqueue(spec(key="k")) == [Enqueued(first, created=False)]


def test_a_window_leaves_the_key_with_its_job_until_the_job_has_ended(world: World) -> None:
    twin = {"key": "k", "until": "window", "window": SECOND}
    first, owner = world.add(**twin), world.worker()
    job = world.take(owner)
    assert world.enqueue(spec(**twin)) == [Enqueued(first, created=False)]
    world.clock.advance(5)
    assert world.enqueue(spec(**twin)) == [Enqueued(first, created=False)]
    world.finish(owner, job, Retry(0, ERROR))
    assert world.enqueue(spec(**twin)) == [Enqueued(first, created=False)]
    world.finish(owner, world.take(owner), Done("1"))
    assert world.enqueue(spec(**twin))[0].created


def test_a_refused_twin_does_not_lengthen_the_window(world: World) -> None:
    first, owner = world.add(key="k", until="window", window=10 * SECOND), world.worker()
    world.finish(owner, world.take(owner), Done("1"))
    world.clock.advance(9)
    assert world.enqueue(spec(key="k", until="window", window=10 * SECOND))[0].id == first
    world.clock.advance(2)
    assert world.enqueue(spec(key="k"))[0].created


def test_closed_windows_are_pruned_and_open_ones_stay(world: World) -> None:
    world.add(key="short", until="window", window=SECOND)
    world.add(key="long", until="window", window=60 * SECOND)
    world.clock.advance(2)
    world.run(retention.prune_windows)
    assert [held.split("\x1f")[-1] for (held,) in world.sql("select held from holdfast_dedupe")] == ["long"]


# -- on_duplicate


def test_raise_names_the_job_that_holds_the_key_and_writes_nothing(world: World) -> None:
    winner = world.add(key="k")
    with pytest.raises(DuplicateJob) as caught:
        world.enqueue(spec(), spec(key="k", on_duplicate="raise"))
    assert (caught.value.job_id, caught.value.key) == (winner, "k")
    assert world.jobs() == 1


def test_raise_also_answers_to_an_open_window(world: World) -> None:
    winner, owner = world.add(key="k", until="window", window=SECOND), world.worker()
    world.finish(owner, world.take(owner), Done("1"))
    with pytest.raises(DuplicateJob) as caught:
        world.enqueue(spec(key="k", on_duplicate="raise"))
    assert caught.value.job_id == winner


def test_replace_gives_a_waiting_job_new_arguments_and_a_new_due_time(world: World) -> None:
    winner = world.add(key="k", payload="1", delay=5 * SECOND)
    world.clock.advance(3)
    answer = world.enqueue(spec(key="k", payload="2", delay=5 * SECOND, on_duplicate="replace"))
    assert answer == [Enqueued(winner, created=False)]
    job = world.job(winner)
    assert (job.payload, job.not_before, job.rank) == ("2", world.now + 5 * SECOND, world.now + 5 * SECOND)
    world.clock.advance(3)
    assert world.claim(world.worker()) == []


def test_replace_can_bring_a_job_forward_and_wakes_its_queue(each_store: World) -> None:
    winner = each_store.add(key="k", delay=60 * SECOND, queue="q")
    with closing(each_store.store.wakeups.listen(["queue:q"])) as listener:
        each_store.enqueue(spec(key="k", payload="2", on_duplicate="replace", queue="q"))
        assert listener.wait(SOON)
    job = each_store.take(each_store.worker(), queues=["q"])
    assert (job.id, job.payload) == (winner, "2")


def test_replace_leaves_a_job_alone_that_has_started(world: World) -> None:
    placed = world.place(JobState.RUNNING, key="k", payload="1")
    before = world.row(placed.id)
    assert world.enqueue(spec(key="k", payload="2", on_duplicate="replace")) == [Enqueued(placed.id, created=False)]
    assert world.row(placed.id) == before


def test_replace_changes_a_held_job_that_never_started_and_it_stays_held(world: World) -> None:
    winner = world.add(key="k", payload="1")
    world.run(actions.act, winner, Order(Action.HOLD), actor="ada", reason="not yet")
    world.enqueue(spec(key="k", payload="2", on_duplicate="replace"))
    assert (world.job(winner).payload, world.job(winner).state) == ("2", "blocked")
    assert world.claim(world.worker()) == []
    world.run(actions.act, winner, Order(Action.RELEASE), actor="ada", reason="now")
    assert world.take(world.worker()).payload == "2"


NEVER_BEGAN = [
    Snoozed(SECOND, "quota"),
    Snoozed(SECOND, "admission"),
    Parked("budget_exhausted", ERROR, began=False),
    Released("shutdown", began=False),
    Rerouted(Route("default", frozenset({"gpu"})), "no_handler"),
]


@pytest.mark.parametrize("outcome", NEVER_BEGAN, ids=repr)
def test_a_job_whose_handler_never_began_has_not_started_and_keeps_its_key(world: World, outcome: Any) -> None:
    winner, owner = world.add(key="k", payload="1", until="start"), world.worker()
    for _ in range(2):
        world.finish(owner, world.take(owner), outcome)
        assert world.job(winner).started_at is None
        again = world.enqueue(spec(key="k", payload="2", until="start", on_duplicate="replace"))
        assert again == [Enqueued(winner, created=False)]
        world.sql("update holdfast_live set state = 'ready', due = 1, route = :route", route=Route("default").number)
        world.clock.advance(1)
    job = world.take(owner)
    world.finish(owner, job, Released("shutdown"))
    assert world.job(winner).started_at is not None
    assert world.enqueue(spec(key="k", until="start"))[0].created, "once it has begun, its key is free"


@pytest.mark.parametrize("outcome", [Retry(SECOND, ERROR), Snoozed(SECOND)], ids=["retry", "snooze"])
def test_replace_leaves_a_job_alone_that_has_run_and_will_run_again(world: World, outcome: Any) -> None:
    winner, owner = world.add(key="k", payload="1"), world.worker()
    world.finish(owner, world.take(owner), outcome)
    before = world.row(winner)
    assert world.enqueue(spec(key="k", payload="2", on_duplicate="replace")) == [Enqueued(winner, created=False)]
    assert world.row(winner) == before


# -- inside one bulk


def test_twins_in_one_bulk_are_one_job_and_the_first_wins(world: World) -> None:
    specs = [spec(key="k", payload="1"), spec(), spec(key="k", payload="2"), spec(key="other")]
    answers = world.enqueue(*specs)
    assert [answer.created for answer in answers] == [True, True, False, True]
    assert [answer.id for answer in answers] == [specs[0].id, specs[1].id, specs[0].id, specs[3].id]
    assert world.job(specs[0].id).payload == "1"


def test_a_bulk_is_first_in_first_out_whatever_its_keys(world: World) -> None:
    specs = [spec(key="z"), spec(), spec(key="a"), spec(), spec(key="m")]
    world.enqueue(*specs)
    assert [job.id for job in world.claim(world.worker())] == [s.id for s in specs]


def test_a_twin_in_a_bulk_may_replace_one_before_it(world: World) -> None:
    first = spec(key="k", payload="1")
    world.enqueue(first, spec(key="k", payload="2", on_duplicate="replace"))
    assert (world.jobs(), world.job(first.id).payload) == (1, "2")


def test_a_deduplicated_enqueue_wakes_nobody(each_store: World) -> None:
    each_store.add(key="k")
    queue = each_store.name("quiet")  # on Postgres a ring may come long after its commit
    with closing(each_store.store.wakeups.listen([f"queue:{queue}"])) as listener:
        while listener.wait(0.2):  # on Postgres the first listener is rung when it hears
            pass
        assert each_store.enqueue(spec(key="k", queue=queue))[0].created is False
        assert not listener.wait(0.02)


# -- races


def test_of_many_racing_enqueues_one_creates_the_job_and_all_name_it(two_worlds: tuple[World, World]) -> None:
    first, _ = two_worlds
    for key in "abcde":
        answers = all_at_once([partial(_add_two, world, key) for world in two_worlds * 4])
        for held in zip(*answers, strict=True):
            assert len({answer.id for answer in held}) == 1
            assert [answer.created for answer in held].count(True) == 1
    assert first.jobs() == 10


def test_bulks_that_name_the_same_keys_in_opposite_order_all_succeed(two_worlds: tuple[World, World]) -> None:
    keys = [f"k{i}" for i in range(20)]
    for scope in "abc":
        orders = [keys, keys, keys[::-1], keys[::-1]]
        calls = [partial(_add_all, w, order, scope) for w, order in zip(two_worlds * 2, orders, strict=True)]
        answers = all_at_once(calls)
        assert sum(answer.created for batch in answers for answer in batch) == 20


def test_a_bulk_takes_its_keys_in_one_order_whatever_the_callers(on_postgres: World) -> None:
    world = on_postgres
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: enqueue.enqueue(tx, [spec(key="a")])))
            waiting = start(lambda: world.enqueue(spec(key="z"), spec(key="a")))
            await_blocked(world)
            # It waits for the first of its keys and holds no other meanwhile.
            assert start(lambda: world.enqueue(spec(key="z"))).result(1)[0].created
        assert [answer.created for answer in waiting.result(10)] == [False, False]


def _add_two(world: World, key: str) -> list[Enqueued]:
    return world.enqueue(spec(key=key), spec(key=f"also {key}"))


def _add_all(world: World, keys: list[str], scope: str) -> list[Enqueued]:
    return world.enqueue(*(spec(key=key, scope=scope) for key in keys))


def test_an_enqueue_waits_for_a_strangers_open_twin_and_then_names_it(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    wanted = spec(key="k")
    with aside() as start:
        with open_transaction(first) as within:
            within(Op(lambda tx: enqueue.enqueue(tx, [wanted])))
            late = start(lambda: second.enqueue(spec(key="k")))
            if first.backend == "postgres":
                await_blocked(first)
        assert late.result(10) == [Enqueued(wanted.id, created=False)]


def test_an_enqueue_takes_the_key_of_a_strangers_twin_that_was_rolled_back(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    wanted = spec(key="k")

    with aside() as start:
        with open_transaction(first, commit=False) as within:
            within(Op(lambda tx: enqueue.enqueue(tx, [spec(key="k")])))
            late = start(lambda: second.enqueue(wanted))
            if first.backend == "postgres":
                await_blocked(first)
        assert late.result(10) == [Enqueued(wanted.id, created=True)]
    assert first.jobs() == 1


def test_a_window_opened_and_left_by_a_stranger_meanwhile_still_refuses_its_twin(on_postgres: World) -> None:
    """The waiting insert took its snapshot before the window existed, and finds the key itself free."""
    wanted, twin = (spec(key="k", until="window", window=60 * SECOND) for _ in range(2))
    on_postgres.sql("insert into holdfast_queue (name, events) values ('default', 'all') returning name")
    with aside() as start:
        with open_transaction(on_postgres) as within:
            within(Op(lambda tx: enqueue.enqueue(tx, [wanted])))
            late = start(lambda: on_postgres.enqueue(twin))
            await_blocked(on_postgres)
            within(Op(lambda tx: actions.cancel(tx, wanted.id)))
        assert late.result(10) == [Enqueued(wanted.id, created=False)]
    assert on_postgres.jobs() == 1
    assert on_postgres.sql("select distinct job from holdfast_event_inbox") == [(wanted.id,)], "no event of the twin"


def test_a_replay_that_races_a_twin_is_not_done_rather_than_failed(on_postgres: World) -> None:
    old = on_postgres.place(JobState.FAILED, key="k")
    with aside() as start:
        with open_transaction(on_postgres) as within:
            within(Op(lambda tx: enqueue.enqueue(tx, [spec(key="k")])))
            late = start(lambda: on_postgres.run(actions.retry, old.id))
            await_blocked(on_postgres)
        assert late.result(10) is False
    assert on_postgres.job(old.id).state is JobState.FAILED


def test_a_failed_job_of_a_key_and_its_live_twin_live_side_by_side(world: World) -> None:
    owner = world.worker()
    world.add(key="k")
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    twin = world.add(key="k")
    assert world.take(owner).id == twin
