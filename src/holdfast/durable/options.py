"""Options of steps and waits, and the shared part of the durable calls of both kinds of tasks. Light to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar

if TYPE_CHECKING:
    from ..model.signals import Distinct
    from ..rules.budgets import Amount
    from ..rules.retry import RetryPolicy
    from ..tasks.options import Seconds
    from .calls import Durable

    Self = TypeVar("Self", bound="SharedCalls")

Ends: TypeAlias = Literal["fail", "cancel", "expire", "escalate"]
"""Actions of a timeout, besides resuming the job."""

C = TypeVar("C")


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


def shown_as(name: str) -> Callable[[type[C]], type[C]]:
    """Name a class's methods after the public class that has them, for Python's messages about wrong calls."""

    def rename(cls: type[C]) -> type[C]:
        for method in vars(cls).values():
            if isinstance(method, FunctionType):
                method.__qualname__ = f"{name}.{method.__name__}"
        return cls

    return rename


class SharedCalls:
    """Makes the `Durable` object of a run at its first durable call."""

    _durable: Durable | None = None
    _policy: StepPolicy | None = None

    def options(self: Self, *, max_attempts: int | EllipsisType | None = ..., retry: RetryPolicy | None = None) -> Self:
        """Return a context whose steps have these attempts in one run: `ctx.options(max_attempts=3).step(…)`."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _durable=self._calls(), _policy=check_options(max_attempts, retry))
        return twin

    def describe(
        self,
        *,
        model: str | None = None,
        tool: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost: Amount | None = None,
    ) -> None:
        """Give attributes to the step that runs here: they are recorded and shown with it, and change nothing."""
        from .attributes import describe

        describe(self._calls(), model, tool, input_tokens, output_tokens, cost)

    def _calls(self) -> Durable:
        raise NotImplementedError

    def _check(self) -> None:
        if self._durable is not None:
            self._durable.check()
