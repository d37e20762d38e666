"""The durable calls of a `def` task, with their types.

Light to import: what does the work is loaded at the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from .options import CountTerms, Ends, WaitTerms
from .shared import SharedCalls

if TYPE_CHECKING:
    from ..context import SyncContext
    from ..handle import Job
    from ..model.wait import OnTimeout, Opened
    from ..options import Seconds
    from ..tasks import JobRequest

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")


class BlockingCalls(SharedCalls):
    """What `ctx` can do that a later run of the job will not do again."""

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
        """Go on after so many seconds, or at an instant. Meanwhile the job holds no worker, and may outlive them."""
        from ..storage.step import step

        step(self._calls().sleep(how_long))

    def enqueue(self, request: JobRequest[R]) -> Job[R]:
        """Enqueue a job made by `task.job(…)`, once, for this job's tenant unless it names another."""
        from ..storage.step import step

        return step(self._calls().enqueue(request))

    def waitpoint(self, name: str, *, expires: Seconds, type: Any = Any, once: bool = True) -> Opened:
        """A place where a signal may arrive. Its `token` is all that the sender needs; it can be mailed."""
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

        Gives the signal's payload as `type`, or the job's result. Of several, `needed` says how many end the wait (1,
        or "all" of them) and the answer is a list. With none, an operator or the timeout ends it. `on_timeout` is
        fail, cancel, expire, escalate, or resume: then the answer is `default`.
        """
        from ..storage.step import step
        from . import waits

        return step(waits.wait_for(self._calls(), what, waits.Terms.of(type, on_timeout, terms)))

    @overload
    def gather(self, one: Callable[[], T1], two: Callable[[], T2], /) -> tuple[T1, T2]: ...
    @overload
    def gather(self, one: Callable[[], T1], two: Callable[[], T2], three: Callable[[], T3], /) -> tuple[T1, T2, T3]: ...
    @overload
    def gather(self, *calls: Callable[[], T]) -> tuple[T, ...]: ...
    def gather(self, *calls: Callable[[], Any]) -> tuple[Any, ...]:
        """Call functions that make steps, each on a thread of its own; their values in order.

        All are brought to their end before a failure is raised, or before the job is suspended for one of them.
        """
        from ..storage.step import step
        from .gathering import gather_in_threads

        return step(gather_in_threads(self._calls(), calls))
