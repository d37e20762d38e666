"""Notify what waits for an ended job: members of its flow, suspended jobs, the flow itself.

The schema records every end of a linked job, whichever operation ends it. Operations that end jobs resolve these
records in their own transaction, one level deep: children skipped by that leave records of their own, which any
worker resolves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...port import Params, Row, Tx
from ...statements import sql
from ..jobs import hooks
from ..signals import suspension
from .edges import HOPS, as_list, count, recount, settle
from .endings import end_if_over

PAGE: Final = 500
"""Ends that one transaction resolves at most."""
EDGES: Final = 2_000
"""Children that one transaction updates at most."""
_REPLAYED: Final = "replayed"


@dataclass(frozen=True, slots=True)
class Hop:
    """A job that ended in that state, or was replayed; `flow` is the one whose count of live members it changes."""

    job_id: str
    state: str
    flow: str | None
    has_hooks: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """The kinds of work left to resolve."""

    hops: bool
    sweeps: bool
    cancels: bool
    callbacks: bool

    @property
    def any_but_callbacks(self) -> bool:
        """Leaves out callbacks: one may have to wait for its queue, however often it is checked."""
        return self.hops or self.sweeps or self.cancels


async def left(tx: Tx) -> Left:
    row = await tx.one(sql.hops_wait)
    assert row is not None
    return Left(*map(bool, row))


async def resolve(tx: Tx, ids: Collection[str]) -> None:
    """Resolve the edges of those of these jobs that have ended, in their own transaction."""
    await _resolve(tx, await tx.all(sql.take_hops, ids=as_list(ids)))


async def resolve_cancelled(tx: Tx, ids: Collection[str]) -> None:
    """Resolve members of a cancelled flow: no other member is released or skipped because of them."""
    if ids:
        await _resolve(tx, await tx.all(sql.take_hops, ids=as_list(ids)), cancelled=True)


async def resolve_page(tx: Tx, rounds: int = 1) -> int:
    """Resolve ends that other transactions left, `rounds` levels deep; return how many."""
    done = 0
    for _ in range(rounds):
        rows = await tx.all(sql.page_of_hops, n=PAGE - done)
        await _resolve(tx, rows)
        done += len(rows)
        if not rows or done >= PAGE:
            break
    if done:
        tx.notify("finished")
    return done


async def retried(tx: Tx, ids: Collection[str], *, forgiven: Collection[str]) -> None:
    """Reopen the flows of retried jobs; each job waits again for those of its upstreams that also run again.

    A `forgiven` job waits even for upstreams that ended otherwise than required, until an operator retries those.
    """
    if ids:
        hops = _hops(await tx.all(sql.take_hops, ids=as_list(ids)))
        await _reopen(tx, ids, hops, forgiven)


async def sweep(tx: Tx) -> bool:
    """Cancel upstreams that a released job no longer needs, a page at a time; return whether there was such a job."""
    row = await tx.one(sql.page_of_sweeps, n=1)
    if row is None:
        return False
    rest = [id for (id,) in await tx.all(sql.unneeded_upstreams, id=row[0], n=PAGE)]
    if rest:
        ended = await tx.all(sql.cancel_members, ids=as_list(rest), scope=2, reason="not_needed")
        if await tx.all(sql.ask_members, ids=as_list(rest), reason="not_needed"):
            tx.notify("cancel")
        await resolve(tx, [id for (id,) in ended])
    if len(rest) < PAGE:
        await tx.one(sql.end_sweep, id=row[0])
    return True


async def _resolve(tx: Tx, rows: Sequence[Row], *, cancelled: bool = False) -> None:
    hops = _hops(rows)
    if again := [hop for hop in hops if hop.state == _REPLAYED]:
        # Replayed by an older version of the code, which knows nothing of flows.
        await _reopen(tx, [hop.job_id for hop in again], again)
    if ended := [hop for hop in hops if hop.state != _REPLAYED]:
        await _notify(tx, ended, cancelled=cancelled)


async def _notify(tx: Tx, ended: Sequence[Hop], *, cancelled: bool) -> None:
    known = json.dumps([{"id": hop.job_id, "state": hop.state} for hop in ended])
    marked = await tx.all(sql.mark_edges, ended=known, n=EDGES)
    await _count(tx, [(id, kind, met) for id, kind, met in marked if kind == "wait" or not cancelled])
    if len(marked) >= EDGES:
        # More jobs may wait for them: later transactions resolve the rest, and the flow does not end before.
        rows: list[Params] = [{"job_id": hop.job_id, "state": hop.state, "flow": hop.flow} for hop in ended]
        await tx.each(sql.put_hop, rows)
        tx.notify(HOPS)
        return
    flows = _by_flow(ended)
    lives = await tx.each(sql.lower_live, flows) if flows else []
    for flow, row in zip(flows, lives, strict=True):
        if row and row[0] == 0:
            await end_if_over(tx, str(flow["id"]))
    if hooked := {hop.job_id: hop.state for hop in ended if hop.has_hooks}:
        await hooks.run(tx, hooked)


async def _count(tx: Tx, marked: Sequence[tuple[str, str, int]]) -> None:
    if not marked:
        return
    settled, over = await count(tx, marked)
    await settle(tx, settled)
    if over:
        await suspension.jobs_ended(tx, over)


async def _reopen(tx: Tx, ids: Collection[str], hops: Sequence[Hop], forgiven: Collection[str] | None = None) -> None:
    changed = {id for (id,) in await tx.all(sql.forget_ends, ids=as_list(ids))}
    if forgiven is None or forgiven:
        await tx.all(sql.forget_refusals, ids=as_list(ids if forgiven is None else forgiven))
    counted = [one for one in await recount(tx, {*ids, *changed}) if one.job_id in set(ids) and not one.is_free]
    if counted:
        await tx.all(sql.block_members, ids=as_list(one.job_id for one in counted))
    flows = _by_flow(hops)
    if flows:
        await tx.each(sql.raise_live, flows)
    await settle(tx, counted)


def _by_flow(hops: Iterable[Hop]) -> list[Params]:
    return [{"id": flow, "n": n} for flow, n in sorted(Counter(hop.flow for hop in hops if hop.flow).items())]


def _hops(rows: Sequence[Row]) -> list[Hop]:
    return sorted((Hop(*row) for row in rows), key=lambda hop: hop.job_id)
