"""Options of steps and waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from types import EllipsisType

    from ..model.signals import Distinct
    from ..rules.retry import RetryPolicy
    from ..tasks.options import Seconds

Ends: TypeAlias = Literal["fail", "cancel", "expire", "escalate"]
"""Actions of a timeout, besides resuming the job."""


class WaitTerms(TypedDict, total=False):
    """Keyword arguments of `ctx.wait_for`."""

    timeout: Seconds | None
    default: Any
    """The value returned after a timeout that resumes the job."""
    delay: Seconds
    """The delay after the answer has arrived."""


class CountTerms(WaitTerms, total=False):
    """Keyword arguments of a wait for several, which returns a list."""

    needed: int | Literal["all"]
    """The number of signals that end the wait, or "all": one from each."""
    distinct: Distinct
    """The unit that counts once: signals, waitpoints, or sources."""


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """The attempts of a step in one run of its job, and the waits between them; None is no limit."""

    max_attempts: int | None = 1
    retry: RetryPolicy | None = None


ONCE: Final = StepPolicy()


def check_options(max_attempts: int | EllipsisType | None, retry: RetryPolicy | None) -> StepPolicy:
    """Return the policy that `ctx.options` asks for; 5 tries unless it or the retry policy says otherwise."""
    from ..names import check_attempts
    from ..rules.retry import check_policy, take_attempts

    given = take_attempts({"retry": retry} if max_attempts is ... else {"retry": retry, "max_attempts": max_attempts})
    return StepPolicy(check_attempts(given.get("max_attempts", 5)) or None, check_policy(given["retry"]))
