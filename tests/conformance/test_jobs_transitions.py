"""The transition table, pair by pair: legal moves reach every state they list, illegal ones change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IllegalMove
from holdfast.model.actions import Action, Order
from holdfast.model.flows import Edge, Join
from holdfast.model.jobs import JobSpec, JobState
from holdfast.model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Finish,
    Outcome,
    Parked,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
)
from holdfast.model.routing import Route
from holdfast.model.signals import Answer, Condition, Signal, Wait
from holdfast.rules.lifecycle import MOVES, Event, event_of
from holdfast.storage.ops.flows import dependency_resolution, edges  # fmt: skip
from holdfast.storage.ops.jobs import actions, claims, enqueue, finishing  # fmt: skip
from holdfast.storage.ops.signals import signals, suspension, waking  # fmt: skip

from .world import ERROR, LEASE, Placed, World, claim_request, spec

Act: TypeAlias = Callable[[World, Placed], None]

WAIT = Wait(key="wait:go#1", reason="signal", condition=Condition(names=("go",)))

OUTCOMES: tuple[Outcome, ...] = (
    Done("1"), Retry(0, ERROR), Failed("permanent", ERROR), Snoozed(0), Throttled(0, ERROR), Parked("auth", ERROR),
    Suspended(WAIT), Released("shutdown"), Rerouted(Route("q", frozenset({"task:work"})), "no_handler"),
    Cancelled("asked"), Expired(),
)  # fmt: skip
PAIRS = [(state, event) for state in JobState for event in Event]
KEEPS_ITS_EPOCH = {
    (JobState.RUNNING, Event.CANCEL), (JobState.READY, Event.RUN_NOW), (JobState.BLOCKED, Event.RUN_NOW),
    (JobState.READY, Event.RESCHEDULE), (JobState.BLOCKED, Event.RESCHEDULE),
    (JobState.READY, Event.HOLD), (JobState.BLOCKED, Event.OPERATOR_RELEASE), (JobState.READY, Event.BLOCK),
    (JobState.BLOCKED, Event.BLOCK), (JobState.BLOCKED, Event.UNBLOCK), (JobState.SUSPENDED, Event.RESUME),
}  # fmt: skip


def finish_with(outcome: Outcome) -> Act:
    """What its last owner may try, with the epoch it knows and with the one that the row has."""

    def act(world: World, placed: Placed) -> None:
        for epoch in {placed.epoch, world.job(placed.id).epoch}:
            world.run(finishing.finish, placed.owner, [Finish(placed.id, epoch, outcome)])

    return act


def claim(world: World, placed: Placed) -> None:
    world.run(claims.claim, claim_request(placed.owner, 1, queues=[placed.queue], suspects=1))


def rescue(world: World, placed: Placed) -> None:
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(placed.owner)


def expire(world: World, placed: Placed) -> None:
    world.run(finishing.expire_jobs)
    finish_with(Expired())(world, placed)


def cancel(world: World, placed: Placed) -> None:
    world.run(actions.cancel, placed.id)


def force_cancel(world: World, placed: Placed) -> None:
    world.run(actions.cancel, placed.id, force=True)


def run_now(world: World, placed: Placed) -> None:
    world.run(actions.run_now, placed.id)


def reschedule(world: World, placed: Placed) -> None:
    world.run(actions.act, placed.id, Order(Action.RESCHEDULE, delay=SECOND), actor="me", reason="")


def retry(world: World, placed: Placed) -> None:
    world.run(actions.retry, placed.id)


def hold(world: World, placed: Placed) -> None:
    world.run(actions.apply, [placed.id], Order(Action.HOLD), actor="me", reason="", target=placed.id)


def release(world: World, placed: Placed) -> None:
    world.run(actions.apply, [placed.id], Order(Action.RELEASE), actor="me", reason="", target=placed.id)


def block(world: World, placed: Placed) -> None:
    world.run(edges.block, [placed.id])


def unblock(world: World, placed: Placed) -> None:
    world.run(edges.settle, [edges.Counted(placed.id, awaits=0, spare=0, rest="run")])


def skip(world: World, placed: Placed) -> None:
    world.run(edges.settle, [edges.Counted(placed.id, awaits=1, spare=-1, rest="run")])


def resume(world: World, placed: Placed) -> None:
    world.run(suspension.go_on, placed.id, WAIT.key, Answer("operator"), suspension.Terms(), None)


def give_up(world: World, placed: Placed) -> None:
    world.run(waking.wake_due)


def supersede(world: World, placed: Placed) -> None:
    world.enqueue(twin_of(placed))


def twin_of(placed: Placed) -> JobSpec:
    return spec(queue=placed.queue, key=placed.id, until="failure")


ACTS: dict[Event, Act] = {
    Event.CLAIM: claim,
    **{event_of(outcome): finish_with(outcome) for outcome in OUTCOMES},
    Event.RESCUE: rescue,
    Event.CANCEL: cancel,
    Event.FORCE_CANCEL: force_cancel,
    Event.EXPIRE: expire,
    Event.RUN_NOW: run_now,
    Event.RESCHEDULE: reschedule,
    Event.OPERATOR_RETRY: retry,
    Event.HOLD: hold,
    Event.OPERATOR_RELEASE: release,
    Event.BLOCK: block,
    Event.UNBLOCK: unblock,
    Event.SKIP: skip,
    Event.RESUME: resume,
    Event.GIVE_UP: give_up,
    Event.SUPERSEDE: supersede,
}


def as_it_is(world: World, placed: Placed) -> None:
    pass


def due_later(world: World, placed: Placed) -> None:
    world.sql("update holdfast_live set due = 0, not_before = :now + 9 where id = :id and due = 1", id=placed.id)


def past_its_deadline(world: World, placed: Placed) -> None:
    world.sql("update holdfast_live set deadline = :now where id = :id", id=placed.id)


def unknown_to_all(world: World, placed: Placed) -> None:
    past_its_deadline(world, placed)
    world.sql("update holdfast_live set reason = 'no_handler' where id = :id", id=placed.id)


def out_of_attempts(world: World, placed: Placed) -> None:
    world.sql(
        "update holdfast_live set attempts = (select max_attempts from holdfast_job where id = :id) where id = :id",
        id=placed.id,
    )


def asked_to_stop(world: World, placed: Placed) -> None:
    past_its_deadline(world, placed)
    if world.job(placed.id).state is JobState.RUNNING:
        cancel(world, placed)


def held_by_an_operator(world: World, placed: Placed) -> None:
    world.sql("update holdfast_live set reason = 'operator' where id = :id and state = 'blocked'", id=placed.id)


def waits_for_others(world: World, placed: Placed) -> None:
    world.sql("update holdfast_live set reason = 'dependencies' where id = :id and state = 'blocked'", id=placed.id)


def was_sent_what_it_wants(world: World, placed: Placed) -> None:
    if not world.job(placed.id).state.is_terminal:
        world.run(signals.send, placed.id, Signal(name="go", payload="1"))


def waited_in_vain(on_timeout: str) -> Act:
    def prepare(world: World, placed: Placed) -> None:
        world.sql("delete from holdfast_wait where job_id = :id", id=placed.id)
        world.sql(
            "insert into holdfast_wait (job_id, key, condition, timeout_at, wake_at, on_timeout, since)"
            " values (:id, 'wait:go#1', '{}', :now, :now, :what, :now)",
            id=placed.id, what=on_timeout,
        )  # fmt: skip

    return prepare


def failed_once_and_holds_a_key(world: World, placed: Placed) -> None:
    """As a job has it that may be superseded, as long as it has not ended."""
    world.sql(
        "update holdfast_live set reason = 'retry', attempts = 1, dedupe_held = :held where id = :id",
        held=enqueue.held_key(twin_of(placed)), id=placed.id,
    )  # fmt: skip
    world.sql("update holdfast_job set dedupe_key = id, dedupe_until = 'failure' where id = :id", id=placed.id)


def depends_on_what_failed(world: World, placed: Placed) -> None:
    """An upstream is replayed with it: it waits for that one again."""
    upstream = world.add(queue=placed.queue)
    for place in ("live", "ended"):
        world.sql(f"update holdfast_{place} set linked = 1 where id = :id", id=placed.id)
    world.run(edges.insert_edges, [Edge(upstream, placed.id)])
    world.run(edges.insert_joins, {placed.id: Join()}, {placed.id: 1})
    world.run(dependency_resolution.resolve, [placed.id])


def circumstances(event: Event) -> list[Act]:
    """What decides where an event leads. Together they reach every state that the table lists."""
    match event:
        case Event.EXPIRE:
            return [past_its_deadline, unknown_to_all, asked_to_stop]
        case Event.RESCUE:
            return [as_it_is, past_its_deadline, out_of_attempts, asked_to_stop]
        case Event.RUN_NOW:
            return [as_it_is, due_later]
        case Event.OPERATOR_RELEASE | Event.RESCHEDULE:
            return [held_by_an_operator]
        case Event.BLOCK | Event.UNBLOCK | Event.SKIP:
            return [waits_for_others]
        case Event.SUSPEND:
            return [as_it_is, was_sent_what_it_wants, asked_to_stop]
        case Event.GIVE_UP:
            return [waited_in_vain("fail"), waited_in_vain("cancel"), waited_in_vain("expire")]
        case Event.OPERATOR_RETRY:
            return [as_it_is, depends_on_what_failed]
        case Event.SUPERSEDE:
            return [failed_once_and_holds_a_key]
        case Event.CLAIM:
            return [as_it_is]
        case _:
            return [as_it_is, asked_to_stop]


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=[f"{state}-{event}" for state, event in PAIRS])
def test_an_event_moves_a_job_as_the_table_says_and_not_otherwise(
    each_store: World, state: JobState, event: Event
) -> None:
    world, reached = each_store, set()
    for prepare in circumstances(event):
        placed = world.place(state)
        prepare(world, placed)
        reached.add(happen(world, placed, state, event))
    assert reached == MOVES.get((state, event), {state})


def happen(world: World, placed: Placed, state: JobState, event: Event) -> JobState:
    row, history, before = world.row(placed.id), world.history(placed.id), world.job(placed.id)
    try:
        ACTS[event](world, placed)
    except IllegalMove:
        assert (state, event) not in MOVES
    after = world.job(placed.id)
    if (state, event) not in MOVES:
        assert (world.row(placed.id), world.history(placed.id)) == (row, history)
    elif (state, event) in KEEPS_ITS_EPOCH:
        assert after.epoch == before.epoch
    else:
        assert after.epoch == before.epoch + 1
    assert (after.owner is not None) == (after.state is JobState.RUNNING)
    assert (after.finished_at is not None) == after.state.is_terminal
    return after.state


def test_every_outcome_of_a_run_is_an_event_of_the_table() -> None:
    of_others = {Event.RESCUE, Event.CANCEL, Event.FORCE_CANCEL}
    assert {event_of(o) for o in OUTCOMES} | of_others == {event for state, event in MOVES if state is JobState.RUNNING}


def test_every_event_is_tried() -> None:
    assert set(ACTS) == set(Event)
