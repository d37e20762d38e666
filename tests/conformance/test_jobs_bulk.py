"""What operators do to jobs, one or many: exactly what the rules say, recorded in the same commit."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import QueueClosed
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.audit import AuditFilter
from holdfast.model.jobs import JobState
from holdfast.model.routing import Route
from holdfast.rules.lifecycle import MAX_GENERATION
from holdfast.storage.ops import audit
from holdfast.storage.ops.jobs import actions

from .world import World, spec

ORDERS = {
    Action.SET_PRIORITY: Order(Action.SET_PRIORITY, priority=7),
    Action.MOVE: Order(Action.MOVE, queue="elsewhere"),
    Action.GRANT: Order(Action.GRANT, worker="w", expires=SECOND),
    Action.RESCHEDULE: Order(Action.RESCHEDULE, delay=SECOND),
}
ORDERS |= {action: Order(action) for action in Action if action not in ORDERS}
PAIRS = [(state, action) for state in JobState for action in Action]


def apply(world: World, ids: list[str], order: Order) -> dict[str, ActionResult]:
    return world.run(actions.apply, ids, order, actor="ada", reason="because", target="these")


@pytest.mark.parametrize(("state", "action"), PAIRS, ids=[f"{s}-{a}" for s, a in PAIRS])
def test_a_dry_run_foretells_what_is_done_and_changes_nothing(
    each_store: World, state: JobState, action: Action
) -> None:
    world, placed = each_store, each_store.place(state)
    world.clock.advance(1)
    before = world.row(placed.id)
    expected = world.run(actions.expect, [placed.id], ORDERS[action])
    assert world.row(placed.id) == before
    assert apply(world, [placed.id], ORDERS[action]) == expected
    rows = world.sql("select * from holdfast_any_job where id = :id", id=placed.id)
    assert (rows == [before]) == (not expected[placed.id].changes)


def test_what_changes_nothing_is_not_recorded(each_store: World) -> None:
    world, placed = each_store, each_store.place(JobState.READY)
    order = Order(Action.SET_PRIORITY, priority=7)
    assert [apply(world, [placed.id], order)[placed.id] for _ in "12"] == [ActionResult.CHANGED, ActionResult.ALREADY]
    assert apply(world, ["nobody"], Order(Action.HOLD)) == {"nobody": ActionResult.MISSING}
    assert apply(world, [placed.id], Order(Action.RELEASE)) == {placed.id: ActionResult.ALREADY}
    records = world.run(audit.list_audit, AuditFilter())
    assert [record.action for record in records] == ["job.set_priority"]


def test_many_are_retried_at_once_and_run_again(world: World) -> None:
    ids = sorted(world.place(state).id for state in JobState if state.is_terminal)
    assert apply(world, ids, Order(Action.RETRY)) == dict.fromkeys(ids, ActionResult.RETRIED)
    assert {(world.job(id).state, world.job(id).generation) for id in ids} == {(JobState.READY, 1)}


def test_of_two_with_one_dedupe_key_only_the_first_is_requeued(world: World) -> None:
    old = [world.place(JobState.FAILED, key="k").id, world.place(JobState.FAILED, key="k").id]
    expected = {old[0]: ActionResult.RETRIED, old[1]: ActionResult.KEY_TAKEN}
    assert world.run(actions.expect, old, Order(Action.RETRY)) == expected
    assert apply(world, old, Order(Action.RETRY)) == expected


def test_a_requeue_against_a_live_twin_is_no_error(world: World) -> None:
    old, other = world.place(JobState.FAILED, key="k").id, world.place(JobState.FAILED).id
    world.add(key="k")
    before = world.row(old)
    assert apply(world, [old, other], Order(Action.RETRY)) == {
        old: ActionResult.KEY_TAKEN,
        other: ActionResult.RETRIED,
    }
    assert world.row(old) == before


def test_what_was_retried_too_often_is_left_alone(world: World) -> None:
    placed = world.place(JobState.FAILED)
    world.sql("update holdfast_ended set generation = :n where id = :id", n=MAX_GENERATION, id=placed.id)
    assert apply(world, [placed.id], Order(Action.RETRY)) == {placed.id: ActionResult.NOT_ALLOWED}


def test_what_does_not_exist_is_missing_and_harms_no_other(world: World) -> None:
    job_id = world.add()
    assert apply(world, ["nobody", job_id], Order(Action.CANCEL)) == {
        "nobody": ActionResult.MISSING,
        job_id: ActionResult.CANCELLED,
    }


def test_a_held_job_is_not_claimed_until_it_is_released(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    apply(world, [job_id], Order(Action.HOLD))
    job = world.job(job_id)
    assert (job.state, job.reason, world.claim(owner)) == (JobState.BLOCKED, "operator", [])
    assert apply(world, [job_id], Order(Action.RELEASE)) == {job_id: ActionResult.RELEASED}
    assert world.take(owner).id == job_id


def test_a_released_job_keeps_its_due_time(world: World) -> None:
    job_id, owner = world.add(delay=60 * SECOND), world.worker()
    apply(world, [job_id], Order(Action.HOLD))
    world.clock.advance(30)
    apply(world, [job_id], Order(Action.RELEASE))
    assert world.claim(owner) == []
    world.clock.advance(30)
    assert world.take(owner).id == job_id


def test_only_what_an_operator_holds_is_released(world: World) -> None:
    placed = world.place(JobState.BLOCKED)
    assert apply(world, [placed.id], Order(Action.RELEASE)) == {placed.id: ActionResult.NOT_ALLOWED}


def test_a_moved_job_is_claimed_in_its_new_queue_with_its_demands(world: World) -> None:
    special = Route("default", frozenset({"gpu"}))
    plain, fussy = world.add(), world.enqueue(spec(route=special))[0].id
    apply(world, [plain, fussy], Order(Action.MOVE, queue="bulk"))
    owner = world.worker(queues=["bulk"])
    assert [job.id for job in world.claim(owner, queues=["bulk"])] == [plain]
    tiers = [[Route("bulk", frozenset({"gpu"}))]]
    assert [(job.id, job.queue) for job in world.claim(owner, tiers=tiers)] == [(fussy, "bulk")]


def test_nothing_is_moved_to_a_queue_that_takes_no_jobs(world: World) -> None:
    job_id = world.add()
    world.run(actions.set_queue_state, "shut", "draining")
    with pytest.raises(QueueClosed):
        apply(world, [job_id], Order(Action.MOVE, queue="shut"))
    assert world.job(job_id).queue == "default"
    assert world.run(audit.list_audit, AuditFilter()) == []


def test_a_deleted_job_is_gone_with_its_history(world: World) -> None:
    failed, running = world.place(JobState.FAILED), world.place(JobState.RUNNING)
    fates = apply(world, [failed.id, running.id], Order(Action.DELETE))
    assert fates == {failed.id: ActionResult.DELETED, running.id: ActionResult.REQUESTED}
    assert world.history(failed.id) == []
    assert world.job(running.id).cancel_at == world.now


def test_force_ends_what_runs(world: World) -> None:
    running = world.place(JobState.RUNNING)
    assert apply(world, [running.id], Order(Action.CANCEL, force=True)) == {running.id: ActionResult.CANCELLED}
    assert world.job(running.id).state is JobState.CANCELLED


@pytest.mark.parametrize("only", [{"only_states": ("failed",)}, {"only_queue": "gone"}])
def test_what_left_the_filter_since_it_was_chosen_is_not_meant(world: World, only: dict[str, Any]) -> None:
    placed = world.place(JobState.FAILED)
    world.run(actions.retry, placed.id)
    before = world.row(placed.id)
    order = Order(Action.DELETE, **only)
    assert world.run(actions.expect, [placed.id], order) == {placed.id: ActionResult.NOT_ALLOWED}
    assert apply(world, [placed.id], order) == {placed.id: ActionResult.NOT_ALLOWED}
    assert world.row(placed.id) == before


def test_each_batch_is_recorded_with_who_why_and_exact_counts(world: World) -> None:
    ids = sorted([world.add(), world.place(JobState.RUNNING).id])
    apply(world, ids, Order(Action.CANCEL))
    (item,) = world.run(audit.list_audit, AuditFilter())
    assert (item.actor, item.action, item.target, item.reason) == ("ada", "job.cancel", "these", "because")
    fates = {"cancelled": 1, "cancel_requested": 1}
    assert item.after == {"jobs": 2, "counts": fates, "first": ids[0], "last": ids[1]}
