"""Health: liveness, readiness and a full check. No token needed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from ...model.values import Instant, instant_of
from ..wire.call import Call
from ..wire.operation import Answered, Group
from .health_checks import Finding, check_up, unreachable

group = Group("Health", "Health checks for process managers and load balancers. No token needed; no secrets shown.")

Status: TypeAlias = Literal["ok", "degraded", "down"]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A problem. `code` does not change between versions; `message` is for people."""

    code: str
    message: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the whole, and the problems found."""

    status: Status
    reasons: list[Trouble]
    checked_at: Instant
    last_delivery: Instant | None = None
    """When an outbox entry or a webhook was last delivered, if ever."""
    last_poll: Instant | None = None
    """When an inventory last answered this process; of several, the one that answered longest ago."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


@group.get("/health/live", needs="nothing")
async def live(call: Call) -> Live:
    """Check that the process is alive."""
    return Live()


@group.get("/health/ready", needs="nothing", also=(503,))
async def ready(call: Call) -> Answered[Health]:
    """Check that requests can be served: the store is reachable and its schema is right."""
    down = await unreachable(call.app)
    return _health(call, datetime.now(UTC), down, ())


@group.get("/health", needs="nothing", also=(503,))
async def health(call: Call) -> Answered[Health]:
    """Check the whole system and list its problems.

    Checked at most once a second.
    """
    found = await check_up(call.app)
    return _health(call, found.at, found.down, found.findings, found.last_delivery, found.last_poll)


def _health(
    call: Call,
    at: datetime,
    down: Finding | None,
    findings: tuple[Finding, ...],
    delivered: int | None = None,
    polled: datetime | None = None,
) -> Answered[Health]:
    named = call.may("read") and not call.identity.tenant
    troubles = [
        Trouble(code=one.code, message=one.told(named=named)) for one in ((down,) if down is not None else findings)
    ]
    status: Status = "down" if down is not None else "degraded" if findings else "ok"
    health = Health(
        status=status, reasons=troubles, checked_at=at, last_delivery=instant_of(delivered), last_poll=polled
    )
    return Answered(health, 503 if down is not None else 200)
