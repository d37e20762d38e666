"""Why a job is not running: each reason on a real store."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import NotFound
from holdfast.model.actions import Action, Order
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Rerouted, Retry
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import actions, explaining
from holdfast.storage.ops.limits import quotas, rates, totals

from .world import ERROR, LEASE, World


def reasons(world: World, job_id: str) -> dict[str, str]:
    found = world.run(explaining.explain, job_id)
    assert found.id == job_id
    return {reason.code: reason.text for reason in found.reasons}


def test_a_job_that_any_worker_may_take_is_claimable(world: World) -> None:
    job_id = world.add()
    world.worker()
    assert list(reasons(world, job_id)) == ["claimable"]


def test_it_is_due_later(world: World) -> None:
    job_id = world.add(delay=90 * SECOND)
    world.worker()
    assert "1 m 30 s" in reasons(world, job_id)["due_later"]


def test_it_waits_for_its_next_try(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(60 * SECOND, ERROR))
    assert "attempt 1 of 5): " in reasons(world, job_id)["due_later"]


def test_it_runs_past_its_timeout(world: World) -> None:
    job_id, owner = world.add(timeout=10 * SECOND), world.worker()
    world.take(owner)
    world.clock.advance(9)
    assert "timeout" not in reasons(world, job_id)["running"]
    world.clock.advance(4)
    text = reasons(world, job_id)["running"]
    assert "it is 3 s past its timeout of 10 s" in text
    assert 'isolate="process"' in text


def test_its_queue_is_paused(world: World) -> None:
    job_id = world.add(queue="mail")
    world.worker(queues=["mail"])
    world.run(actions.set_queue_state, "mail", "paused")
    assert "'mail' is paused" in reasons(world, job_id)["queue_paused"]


def test_no_worker_is_alive(world: World) -> None:
    job_id = world.add()
    assert "no_worker" in reasons(world, job_id)
    world.worker()
    world.clock.advance(LEASE / SECOND + 1)
    assert "no_worker" in reasons(world, job_id)


def test_no_worker_serves_its_queue(world: World) -> None:
    job_id = world.add(queue="mail")
    world.worker(queues=["other"])
    text = reasons(world, job_id)["queue_not_served"]
    assert "'mail'" in text
    assert "other" in text


def test_no_worker_knows_its_task(world: World) -> None:
    job_id, stranger = world.add(task="rare"), world.worker()
    assert "'rare'" in reasons(world, job_id)["task_unknown"]
    claimed = world.take(stranger)
    world.finish(stranger, claimed, Rerouted(Route("default").requiring("task:rare"), "no_handler"))
    assert "'rare'" in reasons(world, job_id)["task_unknown"]
    world.worker(tasks=("rare",))
    assert "task_unknown" not in reasons(world, job_id)


def test_its_worker_was_lost_and_it_waits_to_run_apart(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.lose_twice(placed.owner)
    world.worker(queues=[placed.queue])
    assert "suspect" in reasons(world, placed.id)


def test_it_runs_and_who_has_it_until_when(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(10)
    text = reasons(world, placed.id)["running"]
    assert placed.owner in text
    assert "20 s" in text


def test_it_runs_on_a_worker_whose_lease_is_over(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.clock.advance(LEASE / SECOND + 5)
    assert "expired 5 s ago" in reasons(world, placed.id)["running"]


def test_it_was_asked_to_stop(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    world.run(actions.cancel, placed.id)
    assert list(reasons(world, placed.id)) == ["running", "cancel_requested"]


def test_a_cancel_is_named_and_not_the_loss_or_failure_before_it(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(60 * SECOND, ERROR, outcome="lost"))
    world.run(actions.cancel, job_id, reason="not wanted")
    world.clock.advance(5)
    assert reasons(world, job_id) == {"cancelled": "it was cancelled (not wanted), as requested 5 s ago"}


def test_it_is_blocked_and_why(world: World) -> None:
    assert "auth" in reasons(world, world.place(JobState.BLOCKED).id)["blocked"]


def test_an_operator_holds_it_and_how_to_let_it_go(world: World) -> None:
    job_id = world.add()
    world.run(actions.act, job_id, Order(Action.HOLD), actor="ada", reason="the disk is full")
    assert f"holdfast jobs release {job_id}" in reasons(world, job_id)["held"]


def test_the_window_of_its_quota_is_full_and_when_it_has_room(world: World) -> None:
    world.run(quotas.ensure, "", "search", allowed=1, span=60 * SECOND, concurrency=None, origin="code")
    world.run(quotas.admit, "", "search", "another")
    job_id, owner = world.add(limits='{"quota":"search"}'), world.worker()
    assert world.claim(owner) == []
    text = reasons(world, job_id)["quota"]
    assert "'search'" in text and "1 m" in text and "holdfast quotas set search" in text


def test_its_queue_cools_down_and_for_how_long(world: World) -> None:
    job_id, _ = world.add(), world.worker()
    world.run(rates.cool, "default", 60 * SECOND)
    assert "for another 1 m" in reasons(world, job_id)["queue_cooling"]
    world.clock.advance(61)
    assert "queue_cooling" not in reasons(world, job_id)


def test_the_total_of_its_queue_is_used_up(world: World) -> None:
    owner = world.worker()
    world.run(totals.set_total, "default", 1)
    world.add()
    job = world.take(owner)
    job_id = world.add()
    assert "total is 1" in reasons(world, job_id)["queue_total"]
    world.finish(owner, job, Done("1"))
    assert list(reasons(world, job_id)) == ["claimable"]


@pytest.mark.parametrize("state", [s for s in JobState if s.is_terminal])
def test_it_has_ended_and_how(world: World, state: JobState) -> None:
    assert list(reasons(world, world.place(state).id)) == [state.value]


def test_several_reasons_are_told_at_once(world: World) -> None:
    job_id = world.add(delay=SECOND)
    world.run(actions.set_queue_state, "default", "paused")
    assert list(reasons(world, job_id)) == ["due_later", "queue_paused", "no_worker"]


def test_what_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(explaining.explain, "nobody")
