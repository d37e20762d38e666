"""What can be said about a step or a wait besides what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from types import EllipsisType

    from ..model.signals import Distinct
    from ..rules.retry import RetryPolicy
    from ..tasks.options import Seconds

Ends: TypeAlias = Literal["fail", "cancel", "expire", "escalate"]
"""What a timeout may do to the job, besides letting it go on."""


class WaitTerms(TypedDict, total=False):
    """Further words of `ctx.wait_for`."""

    timeout: Seconds | None
    default: Any
    """The answer after a timeout that lets the job go on."""
    delay: Seconds
    """How long to wait once the answer is there."""


class CountTerms(WaitTerms, total=False):
    """And those of a wait for several, whose answer is a list."""

    needed: int | Literal["all"]
    """How many signals end the wait, or one from each."""
    distinct: Distinct
    """What counts once: signals, waitpoints, or sources."""


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """How often a step is tried in one run of its job, and how long it waits between; None is without limit."""

    max_attempts: int | None = 1
    retry: RetryPolicy | None = None


ONCE: Final = StepPolicy()


def check_options(max_attempts: int | EllipsisType | None, retry: RetryPolicy | None) -> StepPolicy:
    """Return the policy that `ctx.options` asks for; 5 tries unless it or the retry policy says otherwise."""
    from ..names import check_attempts
    from ..rules.retry import check_policy, take_attempts

    given = take_attempts({"retry": retry} if max_attempts is ... else {"retry": retry, "max_attempts": max_attempts})
    return StepPolicy(check_attempts(given.get("max_attempts", 5)) or None, check_policy(given["retry"]))
