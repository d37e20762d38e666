"""The stream and progress calls of `ctx`, blocking and async. Light to import, as the context is."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from ..durable.options import SharedCalls

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..model.streams import Draft, Progress, Summary
    from ..storage.port import Op
    from ..tasks.context import JobInfo, Stop
    from .frames import InlineBuffer
    from .writer import FrameBuffer

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="_Speaks")

# A branch of `ctx.gather` is not a step.
_BRANCH: Final = re.compile(r"(?:^|(?<=/))gather#\d+\.\d+/$")


class _Speaks(SharedCalls):
    def _me(self) -> tuple[JobInfo, Any, Stop]:
        context: Any = self
        return context.job, context._app, context._stop

    def _buffer(self) -> FrameBuffer | InlineBuffer:
        return buffer_of(*self._me())

    def _kept(self) -> InlineBuffer | None:
        """Return the frames of an inline job, which has no store."""
        if self._me()[0].worker:
            return None
        from .frames import InlineBuffer

        buffer = self._buffer()
        assert isinstance(buffer, InlineBuffer)
        return buffer

    def _draft(
        self, data: object, kind: str, best_effort: bool, source: str | None, correlation_id: str | None
    ) -> Draft:
        from .frames import draft_of

        self._check()
        return draft_of(data, kind, self._step(), best_effort, source, correlation_id)

    def _step(self) -> str:
        if self._durable is None:
            return ""
        from ..durable.journal import site_of

        scope = site_of(self._durable).scope
        while (shorter := _BRANCH.sub("", scope)) != scope:
            scope = shorter
        return scope.removesuffix("/")

    def _tell(self, percent: float | None, message: str | None, stage: str | None) -> None:
        from .frames import progress_of

        self._check()
        said: Progress = progress_of(percent, message, stage)
        self._buffer().tell(said)

    def _summary(self, patch: dict[str, Any]) -> Op[Summary]:
        from ..storage.ops import streams
        from ..storage.port import Op
        from .frames import patch_of

        self._check()
        plain, job = patch_of(patch), self._me()[0]
        return Op(lambda tx: streams.summarize(tx, job.worker, job.id, job.epoch, plain))


def tracked(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Fail the run if a call of this method is never awaited."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine = method(self, *args, **kwargs)
        self._me()[2].remember(method.__name__, coroutine)
        return coroutine

    return call


class AwaitingStream(_Speaks):
    """For an `async def` task."""

    @tracked
    async def emit(
        self,
        data: object,
        kind: str = "output",
        *,
        best_effort: bool = False,
        source: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Append a frame to the job's stream: text, bytes, or a JSON value; at most 64 KiB.

        It is stored within moments, in order, and with the outcome at the latest; `flush` waits for that. A
        `best_effort` frame may be dropped when there are many. `source` and `correlation_id` are stored with it, such
        as the tool that it came from and the request that it belongs to.
        """
        draft = self._draft(data, kind, best_effort, source, correlation_id)
        await _awaited(self._buffer().put(draft))

    @tracked
    async def flush(self) -> None:
        """Wait until all frames are stored."""
        buffer = self._buffer()
        await _awaited(buffer.flush())
        buffer.check()

    @tracked
    async def progress(
        self, percent: float | None = None, message: str | None = None, stage: str | None = None
    ) -> None:
        """Report progress. Omitted fields stay as they were; the last value of each is always stored."""
        self._tell(percent, message, stage)

    @tracked
    async def summarize(self, patch: dict[str, Any]) -> int:
        """Change the job's summary by a merge patch (RFC 7396); return its new version.

        None removes a key; the text `__holdfast_null__` stores a null.
        """
        if (kept := self._kept()) is not None:
            return kept.summarize(patch)
        summary: Summary = await self._me()[1].open().awrite(self._summary(patch))
        return summary.version


class BlockingStream(_Speaks):
    """For a `def` task."""

    def emit(
        self,
        data: object,
        kind: str = "output",
        *,
        best_effort: bool = False,
        source: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Append a frame to the job's stream: text, bytes, or a JSON value; at most 64 KiB.

        It is stored within moments, in order, and with the outcome at the latest; `flush` waits for that. A
        `best_effort` frame may be dropped when there are many. `source` and `correlation_id` are stored with it, such
        as the tool that it came from and the request that it belongs to.
        """
        draft = self._draft(data, kind, best_effort, source, correlation_id)
        if (crowded := self._buffer().put(draft)) is not None:
            crowded.result()

    def flush(self) -> None:
        """Wait until all frames are stored."""
        buffer = self._buffer()
        if (rest := buffer.flush()) is not None:
            rest.result()
        buffer.check()

    def progress(self, percent: float | None = None, message: str | None = None, stage: str | None = None) -> None:
        """Report progress. Omitted fields stay as they were; the last value of each is always stored."""
        self._tell(percent, message, stage)

    def summarize(self, patch: dict[str, Any]) -> int:
        """Change the job's summary by a merge patch (RFC 7396); return its new version.

        None removes a key; the text `__holdfast_null__` stores a null.
        """
        if (kept := self._kept()) is not None:
            return kept.summarize(patch)
        summary: Summary = self._me()[1].open().write(self._summary(patch))
        return summary.version


def buffer_of(info: JobInfo, app: Any, stop: Stop) -> FrameBuffer | InlineBuffer:
    """Return the buffer of a run, made at its first frame."""
    found: FrameBuffer | InlineBuffer = stop.buffer or app.streams.buffer(info, stop)
    return found


async def _awaited(future: Future[None] | None) -> None:
    if future is not None:
        import asyncio

        await asyncio.wrap_future(future)
