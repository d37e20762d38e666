"""Streams: output of jobs, as pages or live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from ...model.streams import EncodedFrame, Progress, Summary
from ..wire.call import Call
from ..wire.operation import Group
from ..wire.sse import Said, last_id, stream, wants_stream
from .types import Name, PageSize

group = Group("Streams", "Output of jobs: frames, progress and summaries.")

# A frame may have 64 KiB, and each of many readers may be slow.
_AT_ONCE: Final = 50
StreamCursor = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}\.[0-9]{1,18}$", description="The cursor of a frame.")]


class StreamQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The start and end positions. Without `best_effort` only durable frames are read."""

    after: StreamCursor | None = None
    until: StreamCursor | None = None
    limit: PageSize = 500
    best_effort: bool = True


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """Some frames in their order. `next` is where to read on; `closed` says that nothing comes after these."""

    items: list[EncodedFrame]
    next: str
    closed: bool


@group.get(
    "/jobs/{job_id}/stream",
    needs="payload",
    shows_payload=True,
    streams=True,
    request_headers=("Last-Event-ID",),
    besides=((204, "The stream has ended; nothing follows"),),
)
async def read_stream(call: Call, job_id: Name, query: StreamQuery) -> Frames | Response:
    """Read a job's stream; with `Accept: text/event-stream` also follow new output.

    In a stream, each frame is an event `frame` whose id is its cursor; `Last-Event-ID` or `after` resumes it. After the
    job has finished, the last event is `end`.
    """
    streams = call.client.streams
    if not wants_stream(call.request):
        page = await streams.aread(
            job_id, after=query.after, until=query.until, limit=query.limit, best_effort=query.best_effort
        )
        return Frames(items=[frame.encoded for frame in page.frames], next=page.cursor, closed=page.closed)
    after = last_id(call.request) or query.after
    # A missing job or cursor is reported before the stream begins.
    ahead = await streams.aread(job_id, after=after, limit=1, best_effort=query.best_effort)
    if ahead.closed and not ahead.frames and last_id(call.request):
        # A browser reconnects after the end unless the response says that nothing follows.
        return Response(None, 204)
    return stream(_messages(call, job_id, after, best_effort=query.best_effort))


@group.get("/jobs/{job_id}/progress", needs="read")
async def get_progress(call: Call, job_id: Name) -> Progress:
    """Get a job's progress."""
    return await call.client.streams.aprogress(job_id)


@group.get("/jobs/{job_id}/summary", needs="payload", shows_payload=True)
async def get_summary(call: Call, job_id: Name) -> Summary:
    """Get a job's summary document."""
    return await call.client.streams.asummary(job_id)


async def _messages(call: Call, job_id: str, after: str | None, *, best_effort: bool) -> AsyncIterator[Said]:
    cursor = after
    frames = call.client.streams.afollow(job_id, after=after, best_effort=best_effort, at_once=_AT_ONCE)
    async for frame in frames:
        cursor = frame.cursor
        yield Said(msgspec.json.encode(frame.encoded).decode(), event="frame", id=cursor)
    job = await call.client.jobs.aget(job_id, whole=False)
    yield Said(msgspec.json.encode({"state": job.state, "cursor": cursor}).decode(), event="end")
