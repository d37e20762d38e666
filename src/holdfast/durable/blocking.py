"""The durable calls of a `def` task, with their types.

Light to import: the implementation is loaded at the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, TypeVar, Unpack, overload

from .options import CountTerms, Ends, SharedCalls, WaitTerms, shown_as

if TYPE_CHECKING:
    from ..model.artifacts import Artifact
    from ..model.signals import OnTimeout, Opened
    from ..rules.budgets import Amount
    from ..tasks.context import SyncContext
    from ..tasks.job import Job
    from ..tasks.options import Seconds
    from ..tasks.task import JobRequest
    from .artifacts import Data
    from .budgets import SyncReservation

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")


@shown_as("SyncContext")
class BlockingCalls(SharedCalls):
    """The calls of `ctx` that a later run of the job does not repeat."""

    @overload
    def step(
        self, name: str, fn: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function and record its value; a later run of the job gets that value instead.

        Where the function takes a context, it gets this one. A step that fails raises StepFailed.
        """
        from ..storage.step import step

        return step(self._calls().step(self, name, fn, args, kwargs, self._policy))

    def sleep(self, how_long: Seconds | datetime) -> None:
        """Resume after some seconds or at an instant. Meanwhile the job occupies no worker and may outlive it."""
        from ..storage.step import step

        step(self._calls().sleep(how_long))

    def enqueue(self, request: JobRequest[R], *arguments: Never) -> Job[R]:
        """Enqueue a job made by `task.job(…)`, once, for this job's tenant unless it names another."""
        if arguments:
            raise TypeError("ctx.enqueue takes one job; write ctx.enqueue(task.job(…))")
        from ..storage.step import step

        return step(self._calls().enqueue(request))

    def waitpoint(self, name: str, *, expires: Seconds, type: Any = Any, once: bool = True) -> Opened:
        """Open a waitpoint, at which a signal may arrive. The sender needs only its `token`, which can be mailed."""
        from ..storage.step import step
        from . import waits

        return step(waits.waitpoint(self._calls(), name, expires, type, once))

    @overload
    def wait_for(self, what: Job[R], /, *, on_timeout: Ends = ..., **terms: Unpack[WaitTerms]) -> R: ...
    @overload
    def wait_for(
        self,
        what: str | Opened,
        /,
        *,
        type: type[T],
        on_timeout: Ends = ...,
        **terms: Unpack[WaitTerms],
    ) -> T: ...
    @overload
    def wait_for(
        self, *what: str | Opened | Job[Any], type: Any = ..., on_timeout: OnTimeout = ..., **terms: Unpack[CountTerms]
    ) -> Any: ...
    def wait_for(
        self,
        *what: str | Opened | Job[Any],
        type: Any = Any,
        on_timeout: OnTimeout = "fail",
        **terms: Unpack[CountTerms],
    ) -> Any:
        """Wait for a signal by its name, for a waitpoint, or for jobs to end; suspended, without a worker.

        Returns the signal's payload as `type`, or the job's result. Of several, `needed` says how many end the wait (1,
        or "all" of them) and a list is returned. With none, an operator or the timeout ends it. `on_timeout` is
        fail, cancel, expire, escalate, or resume, which returns `default`.
        """
        from ..storage.step import step
        from . import waits

        return step(waits.wait_for(self._calls(), what, waits.SignalTerms.of(type, on_timeout, terms)))

    def artifact(self, name: str, data: Data, content_type: str | None = None) -> Artifact:
        """Store bytes, text, a file by its path or an open file under a name, once for all runs of the job.

        Without a content type it is text/plain for text, else application/octet-stream.
        """
        from ..storage.step import step
        from .artifacts import artifact

        return step(artifact(self._calls(), name, data, content_type))

    def spend(self, budget: str, **amounts: Amount) -> None:
        """Charge a budget: `ctx.spend("team", tokens=812)`. It is recorded once, even over the limit."""
        from ..storage.step import step
        from . import budgets

        step(budgets.spend(self._calls(), budget, amounts))

    def reserve(self, budget: str, **amounts: Amount) -> SyncReservation:
        """Set amounts aside for a block: `with ctx.reserve("team", tokens=4000) as held:`.

        `held.settle(tokens=812)` charges what was actually used and releases the rest. If the budget has too little
        left, the job is blocked until it has enough.
        """
        from .budgets import SyncReservation

        return SyncReservation(self._calls(), budget, amounts)

    def settle(self, budget: str, **amounts: Amount) -> None:
        """Charge what was actually used of the job's `reserve` option, and release the rest."""
        from ..storage.step import step
        from . import budgets

        step(budgets.settle(self._calls(), budget, amounts))

    @overload
    def gather(self, one: Callable[[], T1], two: Callable[[], T2], /) -> tuple[T1, T2]: ...
    @overload
    def gather(self, one: Callable[[], T1], two: Callable[[], T2], three: Callable[[], T3], /) -> tuple[T1, T2, T3]: ...
    @overload
    def gather(self, *calls: Callable[[], T]) -> tuple[T, ...]: ...
    def gather(self, *calls: Callable[[], Any]) -> tuple[Any, ...]:
        """Call functions that make steps, each on its own thread; return their values in order.

        All of them end before a failure is raised, or before the job is suspended for one of them.
        """
        from ..storage.step import step
        from .gathering import gather_in_threads

        return step(gather_in_threads(self._calls(), calls))
