"""Circuit breakers: list, set, trip and reset them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...model.limits import Breaker
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import LONGEST, Acting, Changed, Count, Name, Reason, ReasonQuery

group = Group("Breakers", "Circuit breakers: after repeated failures, the jobs that use one wait.")

Span = Annotated[float, msgspec.Meta(ge=0.001, le=LONGEST, description="Seconds.")]
_WHAT = "the circuit breakers"


class NewBreaker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of consecutive failures that opens it, and the seconds it stays open."""

    failures: Count = 5
    open_for: Span = 30.0
    reason: Reason = ""


class Trip(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The seconds to stay open; left out, its usual time."""

    open_for: Span | None = None
    reason: Reason = ""


class BreakerMoved(Changed, frozen=True, kw_only=True):
    """A breaker after it was opened or closed by hand."""

    breaker: Breaker


@group.get("/breakers", needs="read")
async def list_breakers(call: Call) -> Page[Breaker]:
    """List the circuit breakers with their state."""
    return whole(await call.whole(_WHAT).breakers.alist())


@group.get("/breakers/{scope}", needs="read")
async def get_breaker(call: Call, scope: Name) -> Breaker:
    """Get a circuit breaker with its state."""
    return await call.whole(_WHAT).breakers.aget(scope)


@group.put("/breakers/{scope}", needs="operate")
async def set_breaker(call: Call, scope: Name, body: NewBreaker) -> Breaker:
    """Create or change a circuit breaker."""
    breakers = call.whole(_WHAT).breakers
    await breakers.aset(scope, failures=body.failures, open_for=body.open_for, actor=call.actor, reason=body.reason)
    return await breakers.aget(scope)


@group.delete("/breakers/{scope}", needs="operate")
async def clear_breaker(call: Call, scope: Name, query: ReasonQuery) -> Changed:
    """Delete a circuit breaker. Jobs that use it wait until it is set again."""
    return Changed(changed=await call.whole(_WHAT).breakers.aclear(scope, actor=call.actor, reason=query.reason))


@group.post("/breakers/{scope}/trip", needs="operate")
async def trip_breaker(call: Call, scope: Name, body: Trip) -> BreakerMoved:
    """Open a circuit breaker by hand: jobs that use it do not run for a while.

    If it is already open, it stays open longer.
    """
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(scope)
    after = await breakers.atrip(scope, body.open_for, actor=call.actor, reason=body.reason)
    return BreakerMoved(changed=before.state != after.state, breaker=after)


@group.post("/breakers/{scope}/reset", needs="operate")
async def reset_breaker(call: Call, scope: Name, body: Acting) -> BreakerMoved:
    """Close a circuit breaker by hand, and release the jobs that wait for it."""
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(scope)
    after = await breakers.areset(scope, actor=call.actor, reason=body.reason)
    changed = (before.state, before.failures) != (after.state, after.failures)
    return BreakerMoved(changed=changed, breaker=after)
