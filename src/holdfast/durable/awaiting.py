"""The durable calls of an `async def` task, with their types.

Light to import: the implementation is loaded at the first call. They are coroutines as `async def` makes them; with
Any in place of None, mypy could not tell the overloads of `gather` apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, TypeVar, Unpack, overload

from .options import CountTerms, Ends, SharedCalls, WaitTerms, shown_as

if TYPE_CHECKING:
    from ..model.artifacts import Artifact
    from ..model.signals import OnTimeout, Opened
    from ..rules.budgets import Amount
    from ..tasks.context import Context
    from ..tasks.job import Job
    from ..tasks.options import Seconds
    from ..tasks.task import JobRequest
    from .artifacts import Data
    from .budgets import AsyncReservation

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")


@shown_as("Context")
class AwaitingCalls(SharedCalls):
    """The calls of `ctx` that a later run of the job does not repeat."""

    @overload
    def step(
        self,
        name: str,
        fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[None, None, R]: ...
    @overload
    def step(
        self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[None, None, R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[None, None, R]: ...
    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[None, None, Any]:
        """Call a function and record its value; a later run of the job gets that value instead.

        A plain function runs on a thread. Where the function takes a context, it gets this one. A step that fails
        raises StepFailed.
        """
        durable = self._calls()
        return self._made(f"step({name!r})", durable.step(self, name, fn, args, kwargs, self._policy))

    def sleep(self, how_long: Seconds | datetime) -> Coroutine[None, None, None]:
        """Resume after some seconds or at an instant. Meanwhile the job occupies no worker and may outlive it."""
        return self._made("sleep", self._calls().sleep(how_long))

    def enqueue(self, request: JobRequest[R], *arguments: Never) -> Coroutine[None, None, Job[R]]:
        """Enqueue a job made by `task.job(…)`, once, for this job's tenant unless it names another."""
        if arguments:
            raise TypeError("ctx.enqueue takes one job; write ctx.enqueue(task.job(…))")
        return self._made("enqueue", self._calls().enqueue(request))

    def waitpoint(
        self, name: str, *, expires: Seconds, type: Any = Any, once: bool = True
    ) -> Coroutine[None, None, Opened]:
        """Open a waitpoint, at which a signal may arrive. The sender needs only its `token`, which can be mailed."""
        from . import waits

        return self._made(f"waitpoint({name!r})", waits.waitpoint(self._calls(), name, expires, type, once))

    @overload
    def wait_for(
        self, what: Job[R], /, *, on_timeout: Ends = ..., **terms: Unpack[WaitTerms]
    ) -> Coroutine[None, None, R]: ...
    @overload
    def wait_for(
        self,
        what: str | Opened,
        /,
        *,
        type: type[T],
        on_timeout: Ends = ...,
        **terms: Unpack[WaitTerms],
    ) -> Coroutine[None, None, T]: ...
    @overload
    def wait_for(
        self, *what: str | Opened | Job[Any], type: Any = ..., on_timeout: OnTimeout = ..., **terms: Unpack[CountTerms]
    ) -> Coroutine[None, None, Any]: ...
    def wait_for(
        self,
        *what: str | Opened | Job[Any],
        type: Any = Any,
        on_timeout: OnTimeout = "fail",
        **terms: Unpack[CountTerms],
    ) -> Coroutine[None, None, Any]:
        """Wait for a signal by its name, for a waitpoint, or for jobs to end; suspended, without a worker.

        Returns the signal's payload as `type`, or the job's result. Of several, `needed` says how many end the wait (1,
        or "all" of them) and a list is returned. With none, an operator or the timeout ends it. `on_timeout` is
        fail, cancel, expire, escalate, or resume, which returns `default`.
        """
        from . import waits

        return self._made(
            "wait_for", waits.wait_for(self._calls(), what, waits.SignalTerms.of(type, on_timeout, terms))
        )

    def artifact(self, name: str, data: Data, content_type: str | None = None) -> Coroutine[None, None, Artifact]:
        """Store bytes, text, a file by its path or an open file under a name, once for all runs of the job.

        Without a content type it is text/plain for text, else application/octet-stream.
        """
        from .artifacts import artifact

        return self._made(f"artifact({name!r})", artifact(self._calls(), name, data, content_type))

    def spend(self, budget: str, **amounts: Amount) -> Coroutine[None, None, None]:
        """Charge a budget: `await ctx.spend("team", tokens=812)`. It is recorded once, even over the limit."""
        from . import budgets

        return self._made("spend", budgets.spend(self._calls(), budget, amounts))

    def reserve(self, budget: str, **amounts: Amount) -> AsyncReservation:
        """Set amounts aside for a block: `async with ctx.reserve("team", tokens=4000) as held:`.

        `await held.settle(tokens=812)` charges what was actually used and releases the rest. If the budget has too
        little left, the job is blocked until it has enough.
        """
        from .budgets import AsyncReservation

        return AsyncReservation(self._calls(), budget, amounts)

    def settle(self, budget: str, **amounts: Amount) -> Coroutine[None, None, None]:
        """Charge what was actually used of the job's `reserve` option, and release the rest."""
        from . import budgets

        return self._made("settle", budgets.settle(self._calls(), budget, amounts))

    @overload
    def gather(self, one: Awaitable[T1], two: Awaitable[T2], /) -> Coroutine[None, None, tuple[T1, T2]]: ...
    @overload
    def gather(
        self, one: Awaitable[T1], two: Awaitable[T2], three: Awaitable[T3], /
    ) -> Coroutine[None, None, tuple[T1, T2, T3]]: ...
    @overload
    def gather(self, *awaitables: Awaitable[T]) -> Coroutine[None, None, tuple[T, ...]]: ...
    def gather(self, *awaitables: Awaitable[Any]) -> Coroutine[None, None, tuple[Any, ...]]:
        """Run steps, or coroutines that make steps, concurrently; return their values in order.

        All of them end before a failure is raised, or before the job is suspended for one of them.
        """
        from .gathering import gather

        return self._made("gather", gather(self._calls(), awaitables))

    def _made(self, call: str, coroutine: Coroutine[None, None, R]) -> Coroutine[None, None, R]:
        """Remember a call until it is awaited, so that a forgotten `await` fails the run."""
        self._calls().stop.remember(call, coroutine)
        return coroutine
