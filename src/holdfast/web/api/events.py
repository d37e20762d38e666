"""The event log, as pages or as a live stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from ...clock import SYSTEM_CLOCK
from ...errors import BeyondScope
from ...model.events import Event, EventFilter, check_kinds
from ..live.event_reader import event_reader
from ..wire.call import Call
from ..wire.operation import Group
from ..wire.sse import Said, last_id, stream, wants_stream
from .types import Name, PageSize

group = Group("Events", "The log of events of jobs, flows and queues.")

EventCursor = Annotated[
    str, msgspec.Meta(pattern=r"^(start|[0-9]{1,18}-[0-9]{1,9})$", description="The cursor of an event, or `start`.")
]
# A filter may skip everything: a page ends after some seconds and reports its position.
_LONGEST_LOOK: Final = 2.0
_MARK_EVERY: Final = 5.0


class EventQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters. `kind` is a kind or a prefix, such as job.failed, job or operator, and can be repeated."""

    after: EventCursor | None = None
    limit: PageSize = 100
    kind: Annotated[list[Name], msgspec.Meta(max_length=32)] = []
    job: Name | None = None
    task: Name | None = None
    queue: Name | None = None
    flow: Name | None = None
    tenant: Name | None = None
    tag: Name | None = None


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Some events in order. `next` is where to continue, also if there are no more for now."""

    items: list[Event]
    next: str


@group.get("/events", needs="read", streams=True, request_headers=("Last-Event-ID",))
async def read_events(call: Call, query: EventQuery) -> Events | Response:
    """Read the event log; with `Accept: text/event-stream` also follow new events.

    A page starts at the oldest stored event, or after `after`. In a stream, each message is an event `event` whose id
    is its cursor; `Last-Event-ID` or `after` resumes it. If events after the cursor have been deleted, the response is
    409 `cursor_expired` and names the oldest usable position.
    """
    wanted = _filter(call, query)
    if not wants_stream(call.request):
        return await _page(call, query, wanted)
    after = last_id(call.request) or query.after
    if after is not None:
        # An invalid cursor is reported before the stream begins. Unfiltered, so it reads at most one page.
        await call.app.events.aread(after, limit=1)
    return stream(_messages(call, "0-0" if after == "start" else after, wanted))


async def _page(call: Call, query: EventQuery, wanted: EventFilter) -> Events:
    fields = {name: getattr(wanted, name) for name in wanted.__dataclass_fields__}
    feed = call.app.events(query.after or "start", timeout=0, **fields)
    found: list[Event] = []
    try:
        async with asyncio.timeout(_LONGEST_LOOK):
            async for event in feed:
                found.append(event)
                if len(found) >= query.limit:
                    break
    except TimeoutError:
        pass
    place = found[-1].cursor if len(found) >= query.limit else feed.cursor
    return Events(items=found, next=place or "start")


async def _messages(call: Call, after: str | None, wanted: EventFilter) -> AsyncIterator[Said | bytes]:
    marked = SYSTEM_CLOCK.monotonic()
    async for passed in event_reader(call.app).follow(after):
        wanted_events = [event for event in passed.events if wanted.wants(event)]
        for event in wanted_events:
            yield Said(msgspec.json.encode(event).decode(), event="event", id=event.cursor)
        if wanted_events or SYSTEM_CLOCK.monotonic() > marked + _MARK_EVERY:
            marked = SYSTEM_CLOCK.monotonic()
            # An id without data: a client that reconnects does not read again what its filter skipped.
            yield f"id: {passed.place}\n\n".encode()


def _filter(call: Call, query: EventQuery) -> EventFilter:
    own = call.identity.tenant or None
    if own is not None and query.tenant not in (None, own):
        raise BeyondScope("events of other tenants", own)
    return EventFilter(
        kinds=check_kinds(query.kind or None),
        job=query.job,
        task=query.task,
        queue=query.queue,
        flow=query.flow,
        tenant=own or query.tenant,
        tag=query.tag,
    )
