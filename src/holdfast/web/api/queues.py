"""Queues: state, settings, pause, resume, drain and disable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...errors import InvalidInput
from ...model.queues import Queue, QueueBrief, QueueSettings, QueueState
from ...model.routing import Stranded
from ...rules.retry import RetryPolicy
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import Acting, Changed, QueueName, Reason, Seconds

group = Group("Queues", "Queues and their settings.")


class QueueChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings to change. Durations are in seconds; null resets to the default, and fields left out are unchanged."""

    retry: RetryPolicy | UnsetType | None = UNSET
    timeout: Seconds | UnsetType | None = UNSET
    keep_succeeded: Seconds | UnsetType | None = UNSET
    keep_failed: Seconds | UnsetType | None = UNSET
    keep_cancelled: Seconds | UnsetType | None = UNSET
    keep_expired: Seconds | UnsetType | None = UNSET
    keep_skipped: Seconds | UnsetType | None = UNSET
    keep_result: Seconds | UnsetType | None = UNSET
    cap: Annotated[int, msgspec.Meta(ge=0, le=1000000000)] | UnsetType | None = UNSET
    events: Literal["off", "outcomes", "all"] | UnsetType | None = UNSET
    reason: Reason = ""


class QueueMoved(Changed, frozen=True, kw_only=True):
    """A queue after it was opened or closed."""

    name: str
    state: QueueState


class QueueSet(Changed, frozen=True, kw_only=True):
    """A queue after its settings were changed."""

    settings: QueueSettings


@group.get("/queues", needs="read")
async def list_queues(call: Call) -> Page[QueueBrief]:
    """List the queues that have jobs or settings, with their job counts by state."""
    found: list[QueueBrief] = await call.client.queues.alist()
    return whole(found)


@group.get("/stranded", needs="read")
async def list_stranded(call: Call) -> Page[Stranded]:
    """List the ready jobs that no live worker can run, by reason."""
    return whole(await call.whole("jobs that no worker can run").queues.astranded())


@group.get("/queues/{queue}", needs="read")
async def get_queue(call: Call, queue: QueueName) -> Queue:
    """Get a queue's settings and current state.

    An unknown name returns an empty queue with default settings: queues exist by being used.
    """
    if call.identity.tenant:
        stats = await call.app.scoped(call.identity.tenant).queues.aget(queue)
        return Queue(name=stats.name, state=stats.state, settings=None, stats=stats)
    stats, settings = await call.app.stats.aqueue(queue), await call.app.queues.aget(queue)
    return Queue(name=stats.name, state=settings.state, settings=settings, stats=stats)


@group.get("/queues/{queue}/tasks", needs="read")
async def queue_tasks(call: Call, queue: QueueName) -> Page[str]:
    """List the names of the tasks that have jobs in a queue."""
    return whole(await call.whole("the tasks of a queue").queues.atasks(queue))


@group.post("/queues/{queue}/pause", needs="operate")
async def pause_queue(call: Call, queue: QueueName, body: Acting) -> QueueMoved:
    """Pause a queue: jobs are accepted but not started. Running jobs finish."""
    queues = call.whole("a queue's state").queues
    return await _moved(call, queue, body, queues.apause)


@group.post("/queues/{queue}/resume", needs="operate")
async def resume_queue(call: Call, queue: QueueName, body: Acting) -> QueueMoved:
    """Resume a queue: jobs are accepted and started."""
    queues = call.whole("a queue's state").queues
    return await _moved(call, queue, body, queues.aresume)


@group.post("/queues/{queue}/drain", needs="operate")
async def drain_queue(call: Call, queue: QueueName, body: Acting) -> QueueMoved:
    """Drain a queue: its jobs run, and new ones are rejected."""
    queues = call.whole("a queue's state").queues
    return await _moved(call, queue, body, queues.adrain)


@group.post("/queues/{queue}/disable", needs="operate")
async def disable_queue(call: Call, queue: QueueName, body: Acting) -> QueueMoved:
    """Disable a queue: no jobs start, and new ones are rejected."""
    queues = call.whole("a queue's state").queues
    return await _moved(call, queue, body, queues.adisable)


@group.patch("/queues/{queue}", needs="operate")
async def set_queue(call: Call, queue: QueueName, body: QueueChanges) -> QueueSet:
    """Change a queue's settings."""
    queues = call.whole("a queue's settings").queues
    changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    reason = changes.pop("reason")
    if not changes:
        raise InvalidInput("nothing to set; give at least one setting")
    before = await queues.aget(queue)
    after = await queues.aset(queue, actor=call.actor, reason=reason, **changes)
    return QueueSet(changed=before != after, settings=after)


async def _moved(call: Call, queue: str, body: Acting, move: Callable[..., Awaitable[QueueSettings]]) -> QueueMoved:
    before = await call.app.queues.aget(queue)
    after = await move(queue, actor=call.actor, reason=body.reason)
    return QueueMoved(changed=before.state != after.state, name=after.name, state=after.state)
