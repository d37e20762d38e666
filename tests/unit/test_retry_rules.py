"""When a failed job is tried again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import holdfast
from holdfast import Park, Snooze, Throttle
from holdfast.clock import SECOND
from holdfast.errors import ConfigError, InvalidInput
from holdfast.model.outcomes import Failed, Snoozed
from holdfast.rules import retry
from holdfast.rules.failure import Failure, FailureClass, classify, decide
from holdfast.rules.retry import RetryPolicy, age_limit, is_aged_out, is_exhausted


@dataclass
class Claim:
    attempt: int
    max_attempts: int
    crashes: int
    created_at: int


def delays(policy: RetryPolicy, u: float = 0.5) -> list[float]:
    return [policy.delay(failures, u) for failures in (0, 1, 2, 3, 4)]


def test_an_exponential_delay_grows_by_its_factor_up_to_its_cap() -> None:
    assert delays(RetryPolicy(initial=2, factor=3, cap=50, jitter="none")) == [2, 2, 6, 18, 50]
    assert RetryPolicy(jitter="none").delay(10_000, 0.0) == 900


def test_a_fixed_delay_stays_and_none_is_no_delay() -> None:
    assert delays(RetryPolicy(kind="fixed", initial=7, jitter="none")) == [7] * 5
    assert delays(RetryPolicy(kind="none", initial=7)) == [0] * 5


def test_fixed_and_exponential_make_the_policies_of_their_names() -> None:
    assert holdfast.fixed(7, jitter="none", max_age=60) == RetryPolicy("fixed", 7, jitter="none", max_age=60)
    assert holdfast.exponential(1, factor=3, cap=50, spread=0) == RetryPolicy(initial=1, factor=3, cap=50, spread=0)
    assert holdfast.exponential() == RetryPolicy()


@pytest.mark.parametrize("wrong", [0, 1.5, True, "4", 1_001])
def test_attempts_that_are_no_number_of_runs_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"^attempts "):
        holdfast.fixed(1, attempts=wrong)  # type: ignore[arg-type]


def test_attempts_of_a_policy_are_those_of_its_task() -> None:
    app = holdfast.App(":memory:")

    @app.task(retry=holdfast.fixed(1, attempts=4))
    def task() -> None: ...

    assert task.task_options.max_attempts == 4
    assert task.task_options.retry == RetryPolicy("fixed", 1)


def test_attempts_of_a_policy_win_over_those_of_the_task_and_yield_to_a_later_option() -> None:
    app = holdfast.App(":memory:")

    @app.task(max_attempts=9)
    def task() -> None: ...

    often = task.options(retry=holdfast.exponential(1, attempts=None))
    assert often.call_options.max_attempts is None
    assert often.options(max_attempts=2).call_options.max_attempts == 2
    assert task.options(retry=holdfast.fixed(1)).call_options.max_attempts is ...


def test_attempts_of_a_policy_that_differ_from_max_attempts_are_refused() -> None:
    app = holdfast.App(":memory:")
    policy = holdfast.fixed(1, attempts=4)
    with pytest.raises(ConfigError, match=r"max_attempts is 3 and the retry policy says attempts=4; give one of them"):
        app.task(max_attempts=3, retry=policy)(lambda: None)
    task = app.task(name="task", max_attempts=4, retry=policy)(lambda: None)
    with pytest.raises(ConfigError, match=r"max_attempts is None .* attempts=4"):
        task.options(max_attempts=None, retry=policy)


def test_attempts_of_a_policy_are_refused_where_nothing_counts_runs() -> None:
    with pytest.raises(ConfigError, match=r"attempts=4 .* not here; leave it out"):
        holdfast.App(":memory:").queues.set("mail", retry=holdfast.fixed(1, attempts=4))


@pytest.mark.parametrize(("u", "full", "additive"), [(0.0, 0, 8), (0.5, 4, 9), (0.75, 6, 9.5)])
def test_full_jitter_shortens_and_additive_jitter_lengthens(u: float, full: float, additive: float) -> None:
    fixed = {"kind": "fixed", "initial": 8}
    assert RetryPolicy(**fixed, jitter="full").delay(1, u) == full
    assert RetryPolicy(**fixed, jitter="additive", spread=0.25).delay(1, u) == additive


@pytest.mark.parametrize(("attempt", "most", "over"), [(1, 2, False), (2, 2, True), (3, 2, True), (99, 0, False)])
def test_the_last_attempt_is_the_one_that_was_allowed(attempt: int, most: int, over: bool) -> None:
    assert is_exhausted(attempt, most) is over


@pytest.mark.parametrize(("now", "delay", "over"), [(0, 10, False), (0, 10.001, True), (9, 1, False), (9, 2, True)])
def test_a_try_that_would_come_after_the_age_limit_is_not_made(now: int, delay: float, over: bool) -> None:
    created = 100 * SECOND
    assert is_aged_out(RetryPolicy(max_age=10), created, created + now * SECOND, delay) is over
    assert is_aged_out(RetryPolicy(), created, created + now * SECOND, delay) is False


@pytest.mark.parametrize(("left", "limit"), [(None, 110), (10, 110), (5.000_001, 110), (5, None), (1, None)])
def test_an_age_limit_counts_unless_a_deadline_comes_first(left: float | None, limit: int | None) -> None:
    created, now = 100 * SECOND, 105 * SECOND
    time_left = None if left is None else round(left * SECOND)
    found = age_limit(RetryPolicy(max_age=10), created, time_left, now)
    assert found == (None if limit is None else limit * SECOND)
    assert age_limit(RetryPolicy(), created, time_left, now) is None


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "often"}, {"jitter": "much"}, {"initial": -1}, {"factor": float("nan")}, {"cap": float("inf")},
     {"spread": True}, {"initial": "2"}, {"max_age": 0}, {"max_age": float("inf")}, {"max_age": True}],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


def test_a_stored_policy_comes_back_and_an_unreadable_one_is_the_default() -> None:
    policy = RetryPolicy(kind="fixed", initial=3, max_age=60)
    assert retry.decode(policy.encode()) == policy
    assert [retry.decode(text) for text in (None, "{", '{"initial": -1}')] == [retry.DEFAULT] * 3


@pytest.mark.parametrize("kind", [FailureClass.RATE_LIMITED, FailureClass.CRASH, FailureClass.TRANSIENT])
def test_no_failure_leads_beyond_the_age_limit(kind: FailureClass) -> None:
    policy, failure = RetryPolicy(kind="fixed", initial=5, jitter="none", max_age=10), Failure(kind, "{}", 5 * SECOND)
    job = Claim(attempt=1, max_attempts=9, crashes=0, created_at=0)
    assert not isinstance(decide(failure, job, policy, now=5 * SECOND, u=0), Failed)
    assert decide(failure, job, policy, now=5 * SECOND + 1, u=0) == Failed(
        "aged_out", "{}", convicts=kind is FailureClass.CRASH
    )


@pytest.mark.parametrize("delay", [0, 0.25, 1, 3])
def test_a_snooze_and_a_throttle_last_at_least_a_second(delay: float) -> None:
    wanted = round(max(1, delay) * SECOND)
    assert classify(Snooze(delay)) == Snoozed(wanted)
    failure = classify(Throttle(after=delay))
    assert isinstance(failure, Failure) and failure.after == wanted


@pytest.mark.parametrize("reason", ["dependencies", "budget_exhausted", "quota", "route", "operator", "order"])
def test_a_reason_that_holdfast_uses_itself_cannot_be_given(reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"{reason}.*choose another"):
        Park("no", reason=reason)


def test_only_a_policy_is_a_policy() -> None:
    policy = RetryPolicy()
    assert retry.check_policy(policy) is policy and retry.check_policy(None) is None
    with pytest.raises(ConfigError, match="max_attempts"):
        retry.check_policy(5)
