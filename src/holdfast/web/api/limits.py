"""Cluster-wide limits: concurrency and rates."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...model.limits import LimitsView
from ..wire.call import Call
from ..wire.operation import Group
from .types import Acting, Changed, Count, Name, QueueName, Reason, ReasonQuery

group = Group("Limits", "Cluster-wide concurrency limits and rates.")

_WHAT = "the limits of the whole store"


class NewMost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A concurrency limit."""

    most: Count
    reason: Reason = ""


class NewRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token bucket: bursts up to `capacity`, `per_second` on average."""

    capacity: Annotated[float, msgspec.Meta(gt=0, lt=1e9)]
    per_second: Annotated[float, msgspec.Meta(gt=0, lt=1e9)]
    reason: Reason = ""


class NewTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue's concurrency, split across the workers."""

    total: Count
    reason: Reason = ""


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The number that run at once from now on."""

    most: int


class RateSet(msgspec.Struct, frozen=True, kw_only=True):
    """A rate as it was set."""

    scope: str
    capacity: float
    per_second: float


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a queue's jobs that run at once over all workers; null is without a total."""

    queue: str
    total: int | None


@group.get("/limits", needs="read")
async def list_limits(call: Call) -> LimitsView:
    """List the limits with their use."""
    if call.identity.tenant:
        lanes = await call.app.scoped(call.identity.tenant).limits.alist()
        return LimitsView(lanes=lanes, rates=[], totals={}, breakers=[])
    return await call.app.limits.ashow()


@group.put("/limits/tasks/{task}", needs="operate")
async def limit_task(call: Call, task: Name, body: NewMost) -> Most:
    """Set the concurrency limit of a task. Jobs already running are not counted."""
    limits = call.whole(_WHAT).limits
    await limits.aset_concurrency(body.most, task=task, actor=call.actor, reason=body.reason)
    return Most(most=body.most)


@group.delete("/limits/tasks/{task}", needs="operate")
async def unlimit_task(call: Call, task: Name, query: ReasonQuery) -> Changed:
    """Remove the concurrency limit of a task."""
    limits = call.whole(_WHAT).limits
    return Changed(changed=await limits.aclear_concurrency(task=task, actor=call.actor, reason=query.reason))


@group.put("/limits/queues/{queue}", needs="operate")
async def limit_queue(call: Call, queue: QueueName, body: NewMost) -> Most:
    """Set the concurrency limit of a queue. Jobs already running are not counted."""
    limits = call.whole(_WHAT).limits
    await limits.aset_concurrency(body.most, queue=queue, actor=call.actor, reason=body.reason)
    return Most(most=body.most)


@group.delete("/limits/queues/{queue}", needs="operate")
async def unlimit_queue(call: Call, queue: QueueName, query: ReasonQuery) -> Changed:
    """Remove the concurrency limit of a queue."""
    limits = call.whole(_WHAT).limits
    return Changed(changed=await limits.aclear_concurrency(queue=queue, actor=call.actor, reason=query.reason))


@group.put("/limits/rates/{scope}", needs="operate")
async def set_rate(call: Call, scope: Name, body: NewRate) -> RateSet:
    """Create or change the token bucket of a scope."""
    await call.whole(_WHAT).limits.aset_rate(
        scope, capacity=body.capacity, per_second=body.per_second, actor=call.actor, reason=body.reason
    )
    return RateSet(scope=scope, capacity=body.capacity, per_second=body.per_second)


@group.delete("/limits/rates/{scope}", needs="operate")
async def clear_rate(call: Call, scope: Name, query: ReasonQuery) -> Changed:
    """Remove the token bucket of a scope. Jobs that use it wait until it is set again."""
    limits = call.whole(_WHAT).limits
    return Changed(changed=await limits.aclear_rate(scope, actor=call.actor, reason=query.reason))


@group.post("/limits/rates/{scope}/drain", needs="operate")
async def drain_rate(call: Call, scope: Name, body: Acting) -> None:
    """Empty the token bucket of a scope, after the service has rejected requests."""
    await call.whole(_WHAT).limits.adrain(scope, actor=call.actor, reason=body.reason)


@group.put("/limits/totals/{queue}", needs="operate")
async def set_total(call: Call, queue: QueueName, body: NewTotal) -> Total:
    """Split a queue's concurrency across the live workers that serve it."""
    await call.whole(_WHAT).limits.aset_total(queue, body.total, actor=call.actor, reason=body.reason)
    return Total(queue=queue, total=body.total)


@group.delete("/limits/totals/{queue}", needs="operate")
async def clear_total(call: Call, queue: QueueName, query: ReasonQuery) -> Changed:
    """Remove a queue's total."""
    limits = call.whole(_WHAT).limits
    if queue not in (await limits.ashow()).totals:
        return Changed(changed=False)
    await limits.aset_total(queue, None, actor=call.actor, reason=query.reason)
    return Changed(changed=True)
