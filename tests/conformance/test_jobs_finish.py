"""How runs end: the columns that each outcome sets, the history it leaves, and who may record it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Finish,
    Lost,
    Outcome,
    Parked,
    Recorded,
    Released,
    Rerouted,
    Retry,
    Snoozed,
    Throttled,
)
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import actions, finishing
from tests.patience import SOON

from .world import ERROR, World, spec

ELSEWHERE = Route("default", frozenset({"task:work"}))

OUTCOMES: dict[str, Outcome] = {
    "done": Done("1"),
    "retry": Retry(SECOND, ERROR),
    "failed": Failed("permanent", ERROR),
    "snoozed": Snoozed(SECOND),
    "throttled": Throttled(SECOND, ERROR),
    "parked": Parked("auth", ERROR),
    "released": Released("shutdown"),
    "rerouted": Rerouted(ELSEWHERE, "no_handler"),
    "cancelled": Cancelled("asked"),
    "expired": Expired(),
}
each_outcome = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES.keys())


@each_outcome
def test_every_outcome_ends_the_ownership_under_a_new_epoch(world: World, outcome: Outcome) -> None:
    job_id, owner = world.add(), world.worker()
    claimed = world.take(owner)
    world.clock.advance(2)
    verdict = world.finish(owner, claimed, outcome)
    job = world.job(job_id)
    assert verdict == Recorded(job.state)
    assert (job.owner, job.claim, job.alone) == (None, None, 0)
    assert (job.epoch, job.finished_epoch) == (claimed.epoch + 1, claimed.epoch)
    assert job.finished_at == (world.now if job.state.is_terminal else None)


def test_a_success_keeps_its_result_and_writes_no_history(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Done('{"a": [1, "é"]}'))
    job = world.job(job_id)
    assert (job.state, job.result, job.error, job.attempts) == (JobState.SUCCEEDED, '{"a": [1, "é"]}', None, 1)
    assert world.history(job_id) == []


def test_a_success_after_failures_keeps_their_history(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.finish(owner, world.take(owner), Done("1"))
    job = world.job(job_id)
    assert (job.state, job.attempts) == (JobState.SUCCEEDED, 2)
    assert [attempt.outcome for attempt in world.history(job_id)] == ["failed"]


def test_a_retry_is_ready_after_its_delay_and_costs_the_attempt(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(9 * SECOND, ERROR))
    job = world.job(job_id)
    assert (job.state, job.reason, job.not_before, job.rank) == (JobState.READY, "retry", *[world.now + 9 * SECOND] * 2)
    assert (job.attempts, job.error, job.suspect) == (1, ERROR, 0)
    assert world.claim(owner) == []
    world.clock.advance(9)
    assert world.take(owner).attempt == 2


def test_a_failure_for_good_is_a_dead_letter_with_its_kind(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Failed("exhausted", ERROR))
    job = world.job(job_id)
    assert (job.state, job.reason, job.error, job.attempts) == (JobState.FAILED, "exhausted", ERROR, 1)
    world.clock.advance(1e6)
    assert world.claim(owner, suspects=1) == []


@pytest.mark.parametrize(
    ("outcome", "state", "reason", "delay"),
    [
        (Snoozed(5 * SECOND), JobState.READY, "snooze", 5 * SECOND),
        (Throttled(5 * SECOND, ERROR), JobState.READY, "throttle", 5 * SECOND),
        (Released("shutdown"), JobState.READY, "shutdown", 0),
        (Rerouted(ELSEWHERE, "no_handler"), JobState.READY, "no_handler", 0),
        (Parked("auth", ERROR), JobState.BLOCKED, "auth", 0),
    ],
    ids=["snoozed", "throttled", "released", "rerouted", "parked"],
)
def test_what_is_not_the_jobs_fault_gives_the_attempt_back(
    world: World, outcome: Outcome, state: JobState, reason: str, delay: int
) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), outcome)
    job = world.job(job_id)
    assert (job.state, job.reason, job.attempts) == (state, reason, 0)
    if state is JobState.READY:
        assert job.not_before == world.now + delay


def test_a_parked_job_is_blocked_and_is_not_handed_out(world: World) -> None:
    world.add()
    owner = world.worker()
    world.finish(owner, world.take(owner), Parked("auth", ERROR))
    world.clock.advance(1e6)
    assert world.claim(owner) == []


def test_a_handed_back_job_is_ready_at_once(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Released("shutdown"))
    again = world.take(world.worker())
    assert (again.id, again.attempt, again.epoch) == (job_id, 1, 3)


def test_any_number_of_throttles_leaves_every_attempt(world: World) -> None:
    job_id, owner = world.add(max_attempts=2), world.worker()
    for _ in range(20):
        world.finish(owner, world.take(owner), Throttled(0, ERROR))
    assert (world.job(job_id).attempts, world.job(job_id).crashes) == (0, 0)


def test_a_run_that_took_its_process_down_counts_towards_the_crash_cap(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR, outcome="crashed", convicts=True))
    job = world.job(job_id)
    assert (job.crashes, job.suspect, job.attempts) == (1, 1, 1)
    world.finish(owner, world.take(owner, suspects=1), Failed("worker_lost", ERROR, convicts=True))
    assert (world.job(job_id).crashes, world.job(job_id).state) == (2, JobState.FAILED)


def test_an_outcome_of_its_own_clears_the_suspicion_and_being_handed_back_does_not(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR, outcome="crashed", convicts=True))
    world.finish(owner, world.take(owner, suspects=1), Released("shutdown"))
    assert world.job(job_id).suspect == 1
    world.finish(owner, world.take(owner, suspects=1), Retry(0, ERROR))
    assert world.job(job_id).suspect == 0
    assert world.take(owner).id == job_id


# -- history


@pytest.mark.parametrize(
    ("outcome", "label", "error"),
    [
        (Retry(0, ERROR), "failed", ERROR),
        (Retry(0, ERROR, outcome="timeout"), "timeout", ERROR),
        (Failed("exhausted", ERROR), "exhausted", ERROR),
        (Throttled(0, ERROR), "throttled", ERROR),
        (Parked("auth", ERROR), "parked", ERROR),
        (Snoozed(0), "snoozed", None),
        (Released("shutdown"), "released", None),
        (Cancelled("asked"), "cancelled", None),
        (Expired(), "expired", None),
    ],
    ids=["retry", "timeout", "failed", "throttled", "parked", "snoozed", "released", "cancelled", "expired"],
)
def test_every_run_that_is_no_success_leaves_a_row_of_history(
    world: World, outcome: Outcome, label: str, error: str | None
) -> None:
    job_id, owner = world.add(), world.worker()
    claimed, began = world.take(owner), world.now
    world.clock.advance(4)
    world.finish(owner, claimed, outcome)
    (attempt,) = world.history(job_id)
    assert (attempt.outcome, attempt.error, attempt.worker, attempt.attempt) == (label, error, owner, 1)
    assert (attempt.epoch, attempt.generation) == (claimed.epoch, 0)
    assert (attempt.started_at, attempt.ended_at) == (began, world.now)


@pytest.mark.parametrize("outcome", [Retry(0, ERROR), Throttled(0, ERROR)], ids=["counted", "refunded"])
def test_the_newest_32_runs_are_kept(each_store: World, outcome: Outcome) -> None:
    world = each_store
    job_id, owner = world.add(max_attempts=0), world.worker()
    epochs = []
    for _ in range(40):
        job = world.take(owner)
        epochs.append(job.epoch)
        world.finish(owner, job, outcome)
    assert [attempt.epoch for attempt in world.history(job_id)] == epochs[-32:]


# -- batches and repetition


def test_a_batch_is_answered_in_order_whatever_its_mixture(world: World) -> None:
    world.enqueue(*(spec() for _ in range(4)))
    owner = world.worker()
    a, b, c, d = world.claim(owner)
    finishes = [
        Finish(d.id, d.epoch, Failed("permanent", ERROR)), Finish(b.id, b.epoch, Done("2")),
        Finish(a.id, a.epoch + 7, Done("1")), Finish(c.id, c.epoch, Retry(0, ERROR)), Finish("unknown", 1, Done("0")),
    ]  # fmt: skip
    verdicts = world.run(finishing.finish, owner, finishes)
    assert verdicts == [Recorded("failed"), Recorded("succeeded"), Lost(), Recorded("ready"), Lost()]
    assert world.job(b.id).result == "2"
    assert world.job(a.id).state is JobState.RUNNING


def test_a_large_batch_is_recorded_whole(world: World) -> None:
    world.enqueue(*(spec() for _ in range(300)))
    owner = world.worker()
    finishes = [
        Finish(job.id, job.epoch, Done(json.dumps(i)) if i % 2 else Retry(0, ERROR))
        for i, job in enumerate(world.claim(owner, 300))
    ]
    verdicts = world.run(finishing.finish, owner, finishes)
    assert verdicts == [Recorded("succeeded" if i % 2 else "ready") for i in range(300)]
    assert world.job(finishes[7].id).result == "7"


def test_an_empty_batch_is_no_error(world: World) -> None:
    assert world.run(finishing.finish, world.worker(), []) == []


@each_outcome
def test_a_finish_repeated_after_an_unknown_outcome_is_recognised_and_changes_nothing(
    world: World, outcome: Outcome
) -> None:
    job_id, owner = world.add(), world.worker()
    claimed = world.take(owner)
    first = world.finish(owner, claimed, outcome)
    before, history = world.row(job_id), world.history(job_id)
    assert isinstance(first, Recorded)
    assert world.finish(owner, claimed, outcome) == Recorded(first.state, again=True)
    assert (world.row(job_id), world.history(job_id)) == (before, history)


def test_a_repeated_finish_is_recognised_when_the_job_has_gone_on(world: World) -> None:
    job_id, owner, next_owner = world.add(), world.worker(), world.worker()
    claimed = world.take(owner)
    world.finish(owner, claimed, Retry(0, ERROR))
    world.take(next_owner)
    before = world.row(job_id)
    assert world.finish(owner, claimed, Retry(0, ERROR)) == Recorded("running", again=True)
    assert world.row(job_id) == before


@each_outcome
@pytest.mark.parametrize("wrong", ["epoch before", "epoch after", "owner", "finished", "cancelled by force", "rescued"])
def test_who_does_not_own_the_job_changes_nothing(each_store: World, outcome: Outcome, wrong: str) -> None:
    world = each_store
    job_id, owner = world.add(), world.worker()
    claimed = world.take(owner)
    claimant, epoch = owner, claimed.epoch
    match wrong:
        case "epoch before":
            world.finish(owner, claimed, Released("shutdown"))
            world.finish(owner, world.take(owner), Released("shutdown"))
            world.take(owner)
        case "epoch after":
            epoch += 1
        case "owner":
            claimant = world.worker()
        case "finished":
            world.finish(owner, claimed, Done("1"))
            epoch += 1
        case "cancelled by force":
            world.run(actions.cancel, job_id, force=True)
        case "rescued":
            world.lose(owner)
    before, history = world.row(job_id), world.history(job_id)
    (verdict,) = world.run(finishing.finish, claimant, [Finish(job_id, epoch, outcome)])
    assert verdict == Lost()
    assert (world.row(job_id), world.history(job_id)) == (before, history)


def test_a_worker_whose_job_was_rescued_is_not_told_that_its_outcome_stands(world: World) -> None:
    world.add()
    owner = world.worker()
    claimed = world.take(owner)
    world.lose(owner)
    assert world.finish(owner, claimed, Done("1")) == Lost()


def test_a_finish_wakes_those_who_wait_for_results(each_store: World) -> None:
    each_store.add()
    owner = each_store.worker()
    claimed = each_store.take(owner)
    with closing(each_store.store.wakeups.listen(["finished"])) as listener:
        each_store.finish(owner, claimed, Done("1"))
        assert listener.wait(SOON)


@pytest.mark.parametrize("outcome", [Released("shutdown"), Retry(0, ERROR)], ids=["released", "retry"])
def test_a_job_that_can_run_again_at_once_wakes_its_queue(each_store: World, outcome: Any) -> None:
    each_store.add()
    owner = each_store.worker()
    claimed = each_store.take(owner)
    with closing(each_store.store.wakeups.listen(["queue:default"])) as listener:
        each_store.finish(owner, claimed, outcome)
        assert listener.wait(SOON)
