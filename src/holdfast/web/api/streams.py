"""Streams: what jobs say while they run, by the page or as it is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from ...shapes.streams import Frames, Progress, Summary, of_frame, of_frames, of_progress, of_summary
from ..wire.call import Call
from ..wire.operation import Group
from ..wire.sse import Said, last_id, stream, wants_stream
from .types import Name, PageSize

group = Group("Streams", "What jobs say while they run: frames, their progress, their summaries.")

# A frame may have 64 KiB, and each of many readers may be slow.
_AT_ONCE: Final = 50
StreamCursor = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}\.[0-9]{1,18}$", description="That of a frame.")]


class StreamQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where to read on, and up to which frame. Without `best_effort` only the durable frames are read."""

    after: StreamCursor | None = None
    until: StreamCursor | None = None
    limit: PageSize = 500
    best_effort: bool = True


@group.get(
    "/jobs/{job_id}/stream",
    needs="payload",
    streams=True,
    heeds=("Last-Event-ID",),
    besides=((204, "The stream has ended, and the caller has all of it"),),
)
async def read_stream(call: Call, job_id: Name, query: StreamQuery) -> Frames | Response:
    """What a job has said, and with `Accept: text/event-stream` also what it says from now on.

    As a stream, each frame is an event `frame` whose id is its cursor; `Last-Event-ID` or `after` says where to go
    on. When the job has ended, the last event is `end`.
    """
    streams = call.client.streams
    if not wants_stream(call.request):
        page = await streams.aread(
            job_id, after=query.after, until=query.until, limit=query.limit, best_effort=query.best_effort
        )
        return of_frames(page)
    after = last_id(call.request) or query.after
    # A job or a cursor that is not there is said before the stream begins.
    ahead = await streams.aread(job_id, after=after, limit=1, best_effort=query.best_effort)
    if ahead.closed and not ahead.frames and last_id(call.request):
        # A browser comes again after the end, unless it is told that there is nothing to come for.
        return Response(None, 204)
    return stream(_told(call, job_id, after, best_effort=query.best_effort))


@group.get("/jobs/{job_id}/progress", needs="read")
async def get_progress(call: Call, job_id: Name) -> Progress:
    """How far a job says it is."""
    return of_progress(await call.client.streams.aprogress(job_id))


@group.get("/jobs/{job_id}/summary", needs="payload")
async def get_summary(call: Call, job_id: Name) -> Summary:
    """The document that a job keeps about itself."""
    return of_summary(await call.client.streams.asummary(job_id))


async def _told(call: Call, job_id: str, after: str | None, *, best_effort: bool) -> AsyncIterator[Said]:
    cursor = after
    frames = call.client.streams.afollow(job_id, after=after, best_effort=best_effort, at_once=_AT_ONCE)
    async for frame in frames:
        cursor = frame.cursor
        yield Said(msgspec.json.encode(of_frame(frame)).decode(), event="frame", id=cursor)
    job = await call.client.jobs.aget(job_id, whole=False)
    yield Said(msgspec.json.encode({"state": job.state, "cursor": cursor}).decode(), event="end")
