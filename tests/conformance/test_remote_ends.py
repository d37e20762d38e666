"""How runs elsewhere end, and what becomes of their jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import (
    InvalidInput,
    PayloadTooLarge,
)  # fmt: skip
from holdfast.model.jobs import JobState
from holdfast.model.remote import (  # fmt: skip
    Cancel,
    Done,
    Expire,
    Fail,
    Park,
    Problem,
    Release,
    Retry,
    Snooze,
    Throttle,
    TimedOut,
)
from holdfast.outcomes import RESERVED_REASONS
from holdfast.rules.retry import RetryPolicy
from holdfast.storage.ops import remote
from holdfast.worker.claiming.remote import end_overdue

from .lease_kit import Elsewhere

BROKEN = Problem("it broke", "Boom", "at line 1")
AT_ONCE = RetryPolicy(kind="none")


def test_a_success_is_recorded_with_its_result(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    answer = elsewhere.remote.finish(job.handle, Done({"sum": 3}))
    assert (answer.job_id, answer.state, answer.again) == (job.id, "succeeded", False)
    assert json.loads(elsewhere.job(job.id).result or "") == {"sum": 3}


def test_finishing_again_after_a_lost_answer_says_that_it_was_done(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    for outcome in (Done(1), Done(1), Fail(BROKEN)):
        answer = elsewhere.remote.finish(job.handle, outcome)
    assert (answer.state, answer.again) == ("succeeded", True)


def test_a_failure_is_tried_again_until_its_attempts_are_used_up(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    job_id = elsewhere.enqueue(max_attempts=2, retry=AT_ONCE)
    assert elsewhere.remote.finish(elsewhere.take(worker).handle, Retry(BROKEN)).state == "ready"
    job = elsewhere.take(worker)
    assert job.attempt == 2
    assert elsewhere.remote.finish(job.handle, Retry(BROKEN)).state == "failed"
    assert elsewhere.job(job_id).reason == "exhausted"
    assert json.loads(elsewhere.job(job_id).error or "") == {
        "type": "Boom", "message": "it broke", "traceback": "at line 1",
    }  # fmt: skip
    assert [attempt.outcome for attempt in elsewhere.world.history(job_id)] == ["failed", "exhausted"]


def test_the_wait_before_a_retry_is_the_workers_the_jobs_or_the_queues(here: Elsewhere) -> None:
    worker = here.worker()
    fixed = RetryPolicy(kind="fixed", initial=40, jitter="none")
    here.app.queues.set("default", retry=RetryPolicy(kind="fixed", initial=70, jitter="none"))
    for options, outcome, seconds in (
        ({}, Retry(BROKEN, 5), 5),
        ({"retry": fixed}, Retry(BROKEN), 40),
        ({}, Retry(BROKEN), 70),
        ({}, TimedOut(), 70),
    ):
        job_id = here.enqueue(priority=1, **options)
        job = here.take(worker)
        assert job.id == job_id
        here.remote.finish(job.handle, outcome)
        assert here.job(job_id).not_before == here.world.now + seconds * SECOND


@pytest.mark.parametrize(
    ("outcome", "state", "reason", "attempts"),
    [
        (Fail(BROKEN), JobState.FAILED, "permanent", 1),
        (Snooze(10), JobState.READY, "snooze", 0),
        (Throttle(10), JobState.READY, "throttle", 0),
        (Park(BROKEN), JobState.BLOCKED, "auth", 0),
        (Release(), JobState.READY, "released", 0),
        (Cancel(), JobState.CANCELLED, "cancelled", 1),
        (Expire(), JobState.EXPIRED, "deadline", 1),
        (TimedOut(), JobState.READY, "retry", 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_outcome_leads_where_it_says(
    elsewhere: Elsewhere, outcome: Any, state: JobState, reason: str, attempts: int
) -> None:
    _, job = elsewhere.running()
    assert elsewhere.remote.finish(job.handle, outcome).state == str(state)
    stored = elsewhere.job(job.id)
    assert (stored.state, stored.reason, stored.attempts) == (state, reason, attempts)


def test_a_throttled_job_cools_its_queue_unless_told_otherwise(here: Elsewhere) -> None:
    worker, job = here.running()
    here.remote.finish(job.handle, Throttle(10, cool_queue=False))
    here.enqueue()
    other = here.take(worker)
    here.remote.finish(other.handle, Throttle(10))
    here.enqueue()
    assert here.remote.claim(worker, 10) == []


@pytest.mark.parametrize("outcome", [Snooze(0), Throttle(0)], ids=["snooze", "throttle"])
def test_a_snooze_and_a_throttle_last_at_least_a_second(here: Elsewhere, outcome: Any) -> None:
    worker, job = here.running()
    here.remote.finish(job.handle, outcome)
    assert here.job(job.id).not_before == here.world.now + SECOND
    assert here.remote.claim(worker, 10) == []


def test_a_throttle_that_lasts_beyond_the_age_limit_fails_the_job(here: Elsewhere) -> None:
    worker = here.worker()
    job_id = here.enqueue(retry=RetryPolicy(max_age=30))
    here.remote.finish(here.take(worker).handle, Throttle(20, cool_queue=False))
    here.world.clock.advance(20)
    here.remote.beat(worker)
    here.remote.finish(here.take(worker).handle, Throttle(20, cool_queue=False))
    assert (here.job(job_id).state, here.job(job_id).reason) == (JobState.FAILED, "aged_out")


def test_whatever_a_job_ends_with_after_a_cancel_only_a_success_stands(here: Elsewhere) -> None:
    worker = here.worker()
    for outcome, state in ((Done(), "succeeded"), (Retry(BROKEN), "cancelled"), (Release(), "cancelled")):
        job_id = here.enqueue()
        job = here.take(worker)
        here.app.jobs.cancel(job_id)
        assert here.remote.finish(job.handle, outcome).state == state


def test_what_cannot_be_an_outcome_is_refused_and_the_job_goes_on(here: Elsewhere) -> None:
    _, job = here.running()
    for outcome, error in (
        (Done(float("nan")), InvalidInput), (Done("x" * (65 << 20)), PayloadTooLarge), (Snooze(-1), InvalidInput),
        (Throttle(float("inf")), InvalidInput), (Fail(Problem("", "a\nb")), InvalidInput), (object(), InvalidInput),
        *((Park(BROKEN, reason), InvalidInput) for reason in sorted(RESERVED_REASONS)),
    ):  # fmt: skip
        with pytest.raises(error):
            here.remote.finish(job.handle, outcome)
    assert here.job(job.id).state is JobState.RUNNING


def test_hostile_errors_are_stored_as_text_within_their_limits(here: Elsewhere) -> None:
    _, job = here.running()
    here.remote.finish(job.handle, Fail(Problem("\x00\ud800" + "x" * 100_000, traceback="y" * 100_000)))
    stored = json.loads(here.job(job.id).error or "")
    assert len(stored["message"]) == 2_048 and len(stored["traceback"]) <= 12 * 1024


def test_leaving_hands_back_what_is_held_at_no_cost(elsewhere: Elsewhere) -> None:
    worker, other = elsewhere.worker(), elsewhere.worker()
    ids = [elsewhere.enqueue() for _ in range(3)]
    first = elsewhere.remote.claim(worker, 3)
    assert elsewhere.remote.deregister(worker) == 3
    assert elsewhere.remote.deregister(worker) == 0
    assert [row.id for row in elsewhere.app.workers.list()] == [other]
    again = elsewhere.remote.claim(other, 3)
    assert [(job.id, job.attempt) for job in again] == [(job_id, 1) for job_id in ids]
    assert elsewhere.remote.finish(first[0].handle, Done()).again, "handing back was its outcome"
    assert elsewhere.job(ids[0]).state is JobState.RUNNING


# -- runs that take too long


def _end_overdue(elsewhere: Elsewhere, grace: float = 5) -> int:
    runs = elsewhere.world.read(remote.overdue, round(grace * SECOND))
    elsewhere.world.run(end_overdue, runs, elsewhere.app.tasks, 0.5)
    return len(runs)


def test_a_run_elsewhere_that_overstays_its_timeout_is_ended_and_tried_again(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running(timeout=10, max_attempts=2, retry=AT_ONCE)
    elsewhere.world.clock.advance(14)
    assert _end_overdue(elsewhere) == 0
    elsewhere.world.clock.advance(2)
    assert _end_overdue(elsewhere) == 1
    (attempt,) = elsewhere.world.history(job.id)
    assert (elsewhere.job(job.id).state, attempt.outcome) == (JobState.READY, "timeout")
    late = elsewhere.remote.finish(job.handle, Done(1))
    assert (late.state, late.again) == ("ready", True)
    assert list(elsewhere.remote.beat(worker, [job.handle]).lost) == [job.handle]

    elsewhere.take(worker)
    elsewhere.world.clock.advance(16)
    _end_overdue(elsewhere)
    ended = elsewhere.job(job.id)
    assert (ended.state, ended.reason) == (JobState.FAILED, "timeout")


def test_a_queue_gives_its_timeout_to_runs_elsewhere(elsewhere: Elsewhere) -> None:
    elsewhere.app.queues.set("default", timeout=10)
    elsewhere.running()
    elsewhere.world.clock.advance(16)
    assert _end_overdue(elsewhere) == 1


def test_a_run_elsewhere_that_goes_on_past_the_deadline_of_its_job_is_expired(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running(deadline=10)
    elsewhere.world.clock.advance(16)
    _end_overdue(elsewhere)
    assert elsewhere.job(job.id).state is JobState.EXPIRED


def test_a_run_elsewhere_that_ignores_a_cancel_is_ended_after_the_grace(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    elsewhere.app.jobs.cancel(job.id, reason="not needed")
    elsewhere.world.clock.advance(4)
    assert list(elsewhere.remote.beat(worker, [job.handle]).cancelled) == [job.handle]
    assert _end_overdue(elsewhere) == 0
    elsewhere.world.clock.advance(2)
    assert _end_overdue(elsewhere) == 1
    ended, (attempt,) = elsewhere.job(job.id), elsewhere.world.history(job.id)
    assert (ended.state, ended.reason, attempt.outcome) == (JobState.CANCELLED, "not needed", "cancelled")
    assert list(elsewhere.remote.beat(worker, [job.handle]).lost) == [job.handle]


def test_runs_of_workers_in_their_own_process_are_left_to_those(elsewhere: Elsewhere) -> None:
    world = elsewhere.world
    elsewhere.enqueue(timeout=10)
    world.take(world.worker())
    world.clock.advance(1000)
    assert _end_overdue(elsewhere) == 0


def test_a_run_that_ended_between_the_look_and_the_write_stays_as_it_ended(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running(timeout=10)
    elsewhere.world.clock.advance(16)
    runs = elsewhere.world.read(remote.overdue, 0)
    elsewhere.remote.finish(job.handle, Done(1))
    elsewhere.world.run(end_overdue, runs, {}, 0.5)
    assert elsewhere.job(job.id).state is JobState.SUCCEEDED


def test_the_answer_says_after_which_delay_the_job_is_tried_again(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running(max_attempts=2)
    assert elsewhere.remote.finish(job.handle, Retry(BROKEN, delay=7)).delay == 7
    assert elsewhere.remote.finish(job.handle, Retry(BROKEN, delay=7)).delay is None
    _, last = elsewhere.running(max_attempts=1)
    assert elsewhere.remote.finish(last.handle, Retry(BROKEN, delay=7)).delay is None
