"""A job as its user may see it: its status, and its status and output as server-sent events. For ASGI frameworks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..app import App
from ..errors import HoldfastError
from ..shapes.jobs import of_keyed_result
from ..web.wire.failures import error_response, refusal_of
from ..web.wire.seats import SEATS, Seats
from ..web.wire.sse import Said, last_id, stream

from starlette.requests import HTTPConnection, Request  # isort: skip
from starlette.responses import Response  # isort: skip

_END: Final = "end"
_LOOK: Final = 1.0
"""Seconds between two reads of a job's status for an open stream."""
_AT_ONCE: Final = 50
VIEWERS: Final = 200
"""The default number of streams open at a time in one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProgress:
    """The progress that a job has reported."""

    percent: float | None
    message: str | None
    stage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownError:
    """The error of a job that did not succeed, without its traceback and without known secrets."""

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as its user may see it."""

    id: str
    task: str
    state: str
    ended: bool
    progress: ShownProgress
    result: Any
    error: ShownError | None


async def status_of(app: App, job_id: str) -> JobStatus:
    """Read a job's status. NotFound if there is no such job."""
    job = await app.jobs.aget(job_id, whole=False)
    if job.state.is_terminal:
        job = await app.jobs.aget(job_id)
    progress = await app.streams.aprogress(job_id)
    shown = of_keyed_result(job)
    return JobStatus(
        id=job.id,
        task=job.task,
        state=str(job.state),
        ended=job.state.is_terminal,
        progress=ShownProgress(percent=progress.percent, message=progress.message, stage=progress.stage),
        result=shown.result,
        error=ShownError(type=shown.error.type, message=shown.error.message) if shown.error else None,
    )


class Followers:
    """Streams of jobs to users, a bounded number at a time in this process."""

    def __init__(self, viewers: int = VIEWERS) -> None:
        self._seats = Seats(viewers, _anyone, every=3600.0)

    async def follow(self, app: App, request: Request, job_id: str) -> Response:
        """Return a job's status and output as server-sent events, until it has ended."""
        after = last_id(request)
        if after == _END:
            return Response(None, 204)  # Tells a browser not to connect again.
        try:
            await app.streams.aread(job_id, after=after, limit=1)
        except HoldfastError as error:  # A missing job or cursor is reported before the stream begins.
            return error_response(refusal_of(error))
        request.scope[SEATS] = self._seats
        return stream(_messages(app, job_id, after))


async def _anyone(connection: HTTPConnection) -> None:
    return None


async def _messages(app: App, job_id: str, after: str | None) -> AsyncIterator[Said]:
    shown: JobStatus | None = None
    while True:
        # Read before the frames: after an end there are no more of them.
        status = await status_of(app, job_id)
        if status != shown and not status.ended:
            shown = status
            yield Said(_encoded(status), event="status", id=after)
        if status.ended:
            page = await app.streams.aread(job_id, after=after, limit=_AT_ONCE)
        else:
            page = await app.streams.atail(job_id, after=after, timeout=_LOOK)
        for frame in page.frames:
            after = frame.cursor
            yield Said(_encoded(frame.encoded), event="frame", id=after)
        if status.ended and not page.frames:
            yield Said(_encoded(status), event=_END, id=_END)
            return


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()
