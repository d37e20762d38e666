"""Decide when a failed job is retried, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ..clock import SECOND
from ..errors import ConfigError
from ..names import check_attempts

Jitter: TypeAlias = Literal["none", "full", "additive"]

_MAX_EXPONENT: Final = 62
_LONGEST: Final = 366 * 86_400.0
# A thousand years: the age limit must be an instant that a store can keep.
_OLDEST: Final = 1_000 * _LONGEST


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The wait before each retry, in seconds.

    `none` retries at once, `fixed` always waits `initial`, `exponential` waits `initial · factor^(failures−1)` up to
    `cap`. Jitter `full` draws from zero to that value, `additive` adds up to `spread` of it. `max_age` gives up on a
    job that many seconds after it was created, whatever attempts are left.
    """

    kind: Literal["none", "fixed", "exponential"] = "exponential"
    initial: float = 2.0
    factor: float = 2.0
    cap: float = 900.0
    jitter: Jitter = "additive"
    spread: float = 0.25
    max_age: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("kind", ("none", "fixed", "exponential")), ("jitter", ("none", "full", "additive"))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"RetryPolicy.{name} is {getattr(self, name)!r}; use one of {', '.join(allowed)}")
        for name in ("initial", "factor", "cap", "spread"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 <= value <= _LONGEST):
                what = "initial, the seconds before the first retry," if name == "initial" else name
                raise ConfigError(f"RetryPolicy.{what} must be a number from 0 to {_LONGEST:,.0f}, not {value!r}")
        if self.max_age is not None and not (_is_number(self.max_age) and 0 < self.max_age <= _OLDEST):
            raise ConfigError(f"RetryPolicy.max_age must be above 0, up to {_OLDEST:.0f}, not {self.max_age!r}")

    def delay(self, failures: int, u: float) -> float:
        """Seconds to wait after the `failures`-th failure; `u` in [0, 1) is the caller's randomness."""
        base = self._base(max(1, failures))
        if self.jitter == "full":
            return base * u
        return base * (1 + self.spread * u) if self.jitter == "additive" else base

    def _base(self, failures: int) -> float:
        if self.kind == "none":
            return 0.0
        if self.kind == "fixed":
            return self.initial
        try:
            return min(self.cap, self.initial * float(self.factor) ** min(failures - 1, _MAX_EXPONENT))
        except OverflowError:
            return self.cap if self.initial else 0.0

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class LimitedRetryPolicy(RetryPolicy):
    """A policy together with the number of runs, as `fixed` and `exponential` make it from `attempts`."""

    attempts: int | None = None

    def plain(self) -> RetryPolicy:
        """Return the policy without the number of runs, as it is stored."""
        return RetryPolicy(self.kind, self.initial, self.factor, self.cap, self.jitter, self.spread, self.max_age)


def fixed(
    seconds: float,
    *,
    attempts: int | EllipsisType | None = ...,
    jitter: Jitter = "additive",
    spread: float = 0.25,
    max_age: float | None = None,
) -> RetryPolicy:
    """Return a policy that waits equally long before each retry: `@app.task(retry=holdfast.fixed(1, attempts=4))`.

    `attempts` is `max_attempts` of the task or call: the number of runs, the first included, and None for no limit.
    `jitter`, `spread` and `max_age` are those of `RetryPolicy`.
    """
    return _limited(RetryPolicy("fixed", seconds, jitter=jitter, spread=spread, max_age=max_age), attempts)


def exponential(
    initial: float = 2.0,
    *,
    factor: float = 2.0,
    cap: float = 900.0,
    attempts: int | EllipsisType | None = ...,
    jitter: Jitter = "additive",
    spread: float = 0.25,
    max_age: float | None = None,
) -> RetryPolicy:
    """Return a policy that waits `factor` times as long before each further retry, at most `cap` seconds.

    `attempts` is as for `fixed`, the rest as for `RetryPolicy`.
    """
    return _limited(RetryPolicy("exponential", initial, factor, cap, jitter, spread, max_age), attempts)


def _limited(policy: RetryPolicy, attempts: int | EllipsisType | None) -> RetryPolicy:
    if attempts is ...:
        return policy
    check_attempts(attempts, "attempts")
    return LimitedRetryPolicy(
        policy.kind, policy.initial, policy.factor, policy.cap, policy.jitter, policy.spread, policy.max_age, attempts
    )


def take_attempts(options: dict[str, Any]) -> dict[str, Any]:
    """Return options in which the number of runs that the retry policy names is `max_attempts`.

    Raises ConfigError where `max_attempts` is given too, and differs.
    """
    policy = options.get("retry")
    if not isinstance(policy, LimitedRetryPolicy):
        return options
    if options.get("max_attempts", policy.attempts) != policy.attempts:
        raise ConfigError(
            f"max_attempts is {options['max_attempts']} and the retry policy says attempts={policy.attempts};"
            " give one of them"
        )
    return {**options, "retry": policy.plain(), "max_attempts": policy.attempts}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


DEFAULT: Final = RetryPolicy()


def check_policy(policy: object) -> RetryPolicy | None:
    """Check a policy that a caller gave, or None."""
    if isinstance(policy, LimitedRetryPolicy):
        raise ConfigError(
            f"attempts={policy.attempts} of a retry policy counts for a task, its options or ctx.options, not here;"
            " leave it out"
        )
    if policy is None or isinstance(policy, RetryPolicy):
        return policy
    raise ConfigError(f"retry must be a RetryPolicy, not {type(policy).__name__}; max_attempts says how often")


def policy_for(stored: str | None, of_task: RetryPolicy | None) -> RetryPolicy:
    """Return the policy that applies: the job's own, its task's, or the default."""
    return decode(stored) if stored else of_task or DEFAULT


def decode(text: str | None) -> RetryPolicy:
    """Decode a stored policy; one that cannot be read falls back to the default rather than lose the job."""
    if text is None:
        return DEFAULT
    try:
        return msgspec.json.decode(text, type=RetryPolicy)
    except (msgspec.DecodeError, ConfigError):
        return DEFAULT


def is_exhausted(attempt: int, max_attempts: int) -> bool:
    """Return whether the attempt that just failed was the last; 0 is without limit."""
    return bool(max_attempts) and attempt >= max_attempts


def is_aged_out(policy: RetryPolicy, created_at: int, now: int, delay: float) -> bool:
    """Return whether the next try would come after the job's age limit."""
    return policy.max_age is not None and now + delay * SECOND > created_at + policy.max_age * SECOND


def age_limit(policy: RetryPolicy, created_at: int, time_left: int | None, now: int) -> int | None:
    """Return the instant at which a waiting job is too old, unless its deadline, `time_left` from now, is earlier."""
    if policy.max_age is None:
        return None
    limit = created_at + round(policy.max_age * SECOND)
    return limit if time_left is None or limit < now + time_left else None
