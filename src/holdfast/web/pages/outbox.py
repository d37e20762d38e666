"""The outboxes: pending and abandoned entries, and how to retry them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from ...app import App
from ...clock import SECOND, SYSTEM_CLOCK
from ...model.outbox import OutboxAges, OutboxCounts, queue_of
from ...tasks.destinations import Destination
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, back_at, span_of
from .frame import Done, Page
from .templates import below

group = Group("Outbox", kind="page")

_NO_AGES: Final = OutboxAges()


class OutboxQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A query without parameters."""


class DrainForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits the action to entries older than a duration such as 30d."""

    older_than: Annotated[str, msgspec.Meta(max_length=64)] = ""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An outbox with the state of its destination."""

    counts: OutboxCounts
    ages: OutboxAges
    path: str
    queue: str
    state: str
    """The state of its queue, such as paused; or cooling."""
    until: int | None
    """The time of the next attempt while the destination is paused."""
    known: bool
    """True if this app registers the destination."""


@group.get("/outbox", needs="read")
async def show(call: Call, query: OutboxQuery) -> Page:
    """Show the outboxes."""
    counts = await call.client.outbox.alist()
    ages: dict[str, OutboxAges] = {}
    queues: dict[str, tuple[str, float]] = {}
    if isinstance(call.client, App) and counts:
        ages, queues = await asyncio.gather(
            call.client.outbox.aages([one.name for one in counts]), _queues(call.client)
        )
    rows = rows_of(counts, ages, queues, _known(call), SYSTEM_CLOCK.now())
    return Page(
        "outbox.html",
        {
            "page": "outbox",
            "rows": rows,
            "totals": {
                part: sum(getattr(row.counts, part) for row in rows)
                for part in ("pending", "sending", "parked", "abandoned")
            },
            "oldest": min((row.ages.pending for row in rows if row.ages.pending is not None), default=None),
            "whole": not call.identity.tenant,
        },
    )


@group.post("/outbox/{name}/retry", needs="operate")
@back_at("/outbox")
async def retry(call: Call, name: str, form: ActForm) -> Done | Page:
    """Retry scheduled and parked entries now."""
    due = await call.client.outbox.aretry(name, actor=call.actor, reason=form.reason)
    if not due:
        return Done("/outbox", f"Nothing to retry for {name}: all entries are already due.", ok=False)
    return Done("/outbox", f"{due:,} {'entry' if due == 1 else 'entries'} of {name} are due now.")


@group.post("/outbox/{name}/drain", needs="operate")
@back_at("/outbox")
async def drain(call: Call, name: str, form: DrainForm) -> Done | Page:
    """Show abandoned entries by kind; with `confirmed` retry them."""
    older = span_of("older than", form.older_than) or 0
    report = await call.client.outbox.adrain(
        name, older_than=older, apply=bool(form.confirmed), actor=call.actor, reason=form.reason
    )  # fmt: skip
    if not form.confirmed:
        shows: dict[str, Any] = {"page": "outbox", "report": report, "older": form.older_than}
        return Page("outbox_drain.html", {**shows, "path": below("outbox", name, "drain")})
    tried = report.total - report.left
    if not tried:
        return Done("/outbox", f"{name} has no abandoned entries.", ok=False)
    left = f" {report.left:,} have used up their retries and stay abandoned." if report.left else ""
    return Done("/outbox", f"{tried:,} {'entry' if tried == 1 else 'entries'} of {name} will be retried.{left}")


def rows_of(
    counts: Sequence[OutboxCounts],
    ages: Mapping[str, OutboxAges],
    queues: Mapping[str, tuple[str, float]],
    known: frozenset[str],
    now: int,
) -> list[OutboxRow]:
    """Return every outbox that has entries or is registered, by name."""
    found = {one.name: one for one in counts}
    rows: list[OutboxRow] = []
    for name in sorted(found.keys() | known):
        state, cooling = queues.get(queue_of(name), ("active", 0.0))
        # Rounded to ten seconds, so that a live page does not differ by its age alone.
        until = -(-(now + int(cooling * SECOND)) // (10 * SECOND)) * 10 * SECOND if cooling > 0 else None
        rows.append(
            OutboxRow(
                found.get(name, OutboxCounts(name)), ages.get(name, _NO_AGES), below("outbox", name), queue_of(name),
                "cooling" if until and state == "active" else state, until, name in known,
            )
        )  # fmt: skip
    return rows


def _known(call: Call) -> frozenset[str]:
    if call.identity.tenant:
        return frozenset()
    return frozenset(task.short for task in call.app.tasks.values() if isinstance(task, Destination))


async def _queues(app: App) -> dict[str, tuple[str, float]]:
    return {one.name: (one.state, one.cooling) for one in await app.stats.aqueues()}
