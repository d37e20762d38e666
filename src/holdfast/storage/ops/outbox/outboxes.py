"""Operator views of outboxes and actions on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import msgspec

from ....model.actions import Action, ActionResult, Order
from ....model.outbox import PREFIX, DrainReport, OutboxAges, OutboxCounts, queue_of
from ....rules.lifecycle import MAX_GENERATION
from ...port import Tx
from ...statements import sql
from ..audit import audit
from ..jobs import actions
from ..jobs.counting import count_jobs
from ..tenants import counts as counts_of

_WHERE = {
    "ready": "pending", "delayed": "pending", "running": "sending", "blocked": "parked", "succeeded": "delivered",
    "failed": "abandoned",
}  # fmt: skip


async def counts(tx: Tx, tenant: str | None = None) -> list[OutboxCounts]:
    """Return the counts of each outbox that has entries, of all tenants or of one."""
    found: dict[str, Counter[str]] = {}
    for count in await (count_jobs(tx) if tenant is None else counts_of(tx, tenant)):
        if count.queue.startswith(PREFIX):
            place = found.setdefault(count.queue.removeprefix(PREFIX), Counter())
            place[_WHERE.get(count.state, "other")] += count.jobs
    return [OutboxCounts(name, **places) for name, places in sorted(found.items())]


async def ages(tx: Tx, names: Sequence[str]) -> dict[str, OutboxAges]:
    """Return when the oldest entry was put, of each outbox and place."""
    queues = json.dumps([queue_of(name) for name in names])
    return {
        queue.removeprefix(PREFIX): OutboxAges(*found)
        for queue, *found in await tx.all(sql.oldest_entries, queues=queues)
    }


async def last_delivery(tx: Tx, names: Sequence[str]) -> int | None:
    """Return when an entry of one of these outboxes, or a webhook, was last delivered, in microseconds."""
    found: list[int | None] = [one.delivered for one in (await ages(tx, names)).values()] if names else []
    found += [row[0] for row in await tx.all(sql.last_webhook)]
    return max((at for at in found if at is not None), default=None)


async def retry_now(tx: Tx, name: str, tenant: str | None = None, *, actor: str, reason: str) -> int:
    """Make all delayed or parked entries due; return how many. Entries that are being sent are not touched."""
    queue = queue_of(name)
    hastened = await tx.all(sql.hasten_entries, queue=queue, tenant=tenant)
    due = len(hastened) + len(await tx.all(sql.release_parked, queue=queue, tenant=tenant))
    # A destination's pause applies to every tenant, so none of them can end it.
    cooled = tenant is None and await tx.one(sql.end_cooling, queue=queue) is not None
    if due or cooled:
        tx.notify(f"queue:{queue}")
        said = {"action": "outbox.retry", "target": name, "reason": reason}
        await audit(tx, actor=actor, **said, after={"entries": due}, tenant=tenant)
    return due


async def drain(
    tx: Tx, name: str, older: int, tenant: str | None = None, *, apply: bool, actor: str, reason: str
) -> DrainReport:
    """Count abandoned entries of at least that age, by kind; with `apply` they are made pending again."""
    queue = queue_of(name)
    rows = await tx.all(sql.abandoned_entries, queue=queue, older=older, tenant=tenant)
    by_kind = Counter(_kind(payload) for _, payload, _ in rows)
    left = sum(generation >= MAX_GENERATION for *_, generation in rows)
    if apply and rows:
        order = Order(Action.RETRY, only_states=("failed",), only_queue=queue, only_tenant=tenant)
        ids = [row[0] for row in rows]
        results = await actions.apply(tx, ids, order, actor=actor, reason=reason, target=f"outbox={name}")
        left = sum(result is not ActionResult.RETRIED for result in results.values())
        kinds = dict(sorted(by_kind.items()))
        said = {"action": "outbox.drain", "target": name, "reason": reason}
        await audit(tx, actor=actor, **said, after={"kinds": kinds}, tenant=tenant)
    return DrainReport(name, dict(sorted(by_kind.items())), apply, left)


def _kind(payload: str) -> str:
    try:
        body = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return "?"
    kind = body.get("kind", "") if isinstance(body, dict) else "?"
    return kind if isinstance(kind, str) else "?"
