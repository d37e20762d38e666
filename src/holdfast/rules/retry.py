"""Decides when a failed job is tried again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from ..clock import SECOND
from ..errors import ConfigError

_MAX_EXPONENT: Final = 62
_LONGEST: Final = 366 * 86_400.0
# A thousand years: the end of a job's age is an instant that a store can keep.
_OLDEST: Final = 1_000 * _LONGEST


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The wait before each retry, in seconds.

    `none` retries at once, `fixed` always waits `initial`, `exponential` waits `initial · factor^(failures−1)` up to
    `cap`. Jitter `full` draws from zero to that value, `additive` adds up to `spread` of it. `max_age` gives up on a
    job so many seconds after it was created, whatever attempts are left.
    """

    kind: Literal["none", "fixed", "exponential"] = "exponential"
    initial: float = 2.0
    factor: float = 2.0
    cap: float = 900.0
    jitter: Literal["none", "full", "additive"] = "additive"
    spread: float = 0.25
    max_age: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("kind", ("none", "fixed", "exponential")), ("jitter", ("none", "full", "additive"))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"RetryPolicy.{name} is {getattr(self, name)!r}; use one of {', '.join(allowed)}")
        for name in ("initial", "factor", "cap", "spread"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 <= value <= _LONGEST):
                raise ConfigError(f"RetryPolicy.{name} must be between 0 and {_LONGEST:.0f}, not {value!r}")
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


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


DEFAULT: Final = RetryPolicy()


def check_policy(policy: object) -> RetryPolicy | None:
    """A policy that a caller gave, or None."""
    if policy is None or isinstance(policy, RetryPolicy):
        return policy
    raise ConfigError(f"retry must be a RetryPolicy, not {type(policy).__name__}; max_attempts says how often")


def decode(text: str | None) -> RetryPolicy:
    """A stored policy; one that cannot be read falls back to the default rather than lose the job."""
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
