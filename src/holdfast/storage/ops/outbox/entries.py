"""Outbox entries in the store: put within a cap, claimed and recorded in batches, kept in order by key.

Entries are jobs, and use the operations of jobs wherever possible.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....errors import OutboxFull
from ....model.jobs import Claimed, Enqueued, JobSpec
from ....model.outcomes import Done, Failed, Finish
from ....rules.outbox import SPREAD, UNPARKED
from ...port import Params, Tx
from ...statements import sql
from ..jobs import claims, enqueue
from ..jobs.claims import ClaimRequest
from ..jobs.counting import lower_tallies
from ..jobs.retention import forget
from ..limits import lanes

# Delivered entries are not needed any more, so later puts share the work of removing them.
_EVICTED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Room:
    """The capacity of an outbox."""

    name: str
    queue: str
    cap: int


@dataclass(frozen=True, slots=True)
class Put:
    """The result of a put, and the number of entries, where they were counted."""

    answers: list[Enqueued]
    entries: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """The entries of a claim, and how many it found, of which some may have to wait."""

    jobs: list[Claimed]
    found: int


@dataclass(frozen=True, slots=True)
class Signs:
    """The result of a relay's poll. `next_due` is in microseconds."""

    next_due: int | None
    claimable: frozenset[str] = field(default_factory=frozenset)
    parked: frozenset[str] = field(default_factory=frozenset)
    """Queues with entries that a success would release."""


async def put(tx: Tx, specs: Sequence[JobSpec], keys: Mapping[str, str], room: Room | None) -> Put:
    """Enqueue entries; with `room` only within it. `keys` are the order keys of entries, by id."""
    entries = await make_room(tx, room, len(specs)) if room is not None else None
    answers = await enqueue.enqueue(tx, specs)
    ordered: list[Params] = [
        {"queue": spec.route.queue, "key": f"{spec.tenant}\x1f{keys[spec.id]}", "job_id": spec.id}
        for spec, answer in zip(specs, answers, strict=True)
        if answer.created and spec.id in keys
    ]
    for row in ordered:
        # One by one: the numbers must follow the order of the puts.
        await tx.one(sql.note_order, **row)
    new = sum(answer.created for answer in answers)
    return Put(answers, None if entries is None else entries + new)


async def make_room(tx: Tx, room: Room, n: int) -> int:
    """Evict finished entries until `n` more fit: delivered ones, then abandoned ones. Return how many are left."""
    row = await tx.one(sql.entries_in, queue=room.queue)
    entries = int(row[0]) if row else 0
    over = entries + n - room.cap
    if over <= 0:
        return entries
    entries -= await _evict(tx, room.queue, "succeeded", over + min(room.cap // 16, _EVICTED_AT_ONCE))
    for state in ("failed", "cancelled", "expired"):
        if (over := entries + n - room.cap) > 0:
            entries -= await _evict(tx, room.queue, state, over)
    if entries + n > room.cap:
        raise OutboxFull(room.name, room.cap)
    return entries


async def _evict(tx: Tx, queue: str, state: str, n: int) -> int:
    found = [row[0] for row in await tx.all(sql.evictable_entries, queue=queue, state=state, n=n)]
    locked = await tx.all(sql.lock_entries, ids=json.dumps(found)) if found else []
    gone = [id for id, now_in in locked if now_in == state]
    await forget(tx, gone)
    if gone:
        await tx.one(sql.delete_jobs_of, ids=json.dumps(gone))
        await lower_tallies(tx, [(queue, state)] * len(gone))
    return len(gone)


async def turn(
    tx: Tx, owner: str, finishes: Sequence[Finish], request: ClaimRequest | None, *, unpark: str | None, ordered: bool
) -> Taken:
    """Record the outcomes of one batch and claim the next; `unpark` names the queue whose parked entries may go."""
    if ordered and (ended := [f.id for f in finishes if isinstance(f.outcome, (Done, Failed))]):
        # Recorded first, so that later entries of the same keys find them ended.
        await claims.turn(tx, owner, finishes, None)
        await _let_next(tx, ended, len(finishes))
        finishes = ()
    turn = await claims.turn(tx, owner, finishes, request)
    if unpark is not None and await tx.all(sql.unpark_entries, queue=unpark, most=UNPARKED, spread=SPREAD):
        tx.notify(f"queue:{unpark}")
    found = len(turn.claimed) + turn.parked
    if ordered and request and turn.claimed:
        return Taken(await _in_order(tx, request.owner, turn.claimed), found)
    return Taken(turn.claimed, found)


async def _in_order(tx: Tx, owner: str, claimed: list[Claimed]) -> list[Claimed]:
    """Sort entries in the order of their puts; those behind one that has not ended are left out, and wait for it."""
    ids = json.dumps([job.id for job in claimed])
    rows = await tx.all(sql.look_at_order, ids=ids)
    place = {id: seq for id, seq, _ in rows}
    behind = {id for id, _, waits in rows if waits}
    if behind:
        rows = await tx.all(sql.put_behind, ids=json.dumps(sorted(behind)), owner=owner)
        await lanes.release(tx, [holds for (holds,) in rows])
    return sorted((job for job in claimed if job.id not in behind), key=lambda job: place.get(job.id, 0))


async def _let_next(tx: Tx, ended: Sequence[str], n: int) -> None:
    ids = json.dumps(ended)
    places = await tx.all(sql.places_in_order, ids=ids)
    # An abandoned entry keeps its place, in case an operator retries it.
    await tx.one(sql.forget_delivered_order, ids=ids)
    for queue, key in sorted(set(places)):
        await _release(tx, queue, key, n)


async def _release(tx: Tx, queue: str, key: str, n: int) -> None:
    if await tx.all(sql.release_next, queue=queue, key=key, n=n):
        tx.notify(f"queue:{queue}")


async def repair_order(tx: Tx, queue: str, n: int) -> int:
    """Release entries that wait for ones ended by other means, such as a cancel; return for how many keys."""
    keys = [row[0] for row in await tx.all(sql.stalled_order, queue=queue)]
    for key in sorted(keys):
        await _release(tx, queue, key, n)
    return len(keys)


async def order_stalls(tx: Tx, queue: str) -> bool:
    """Return whether `repair_order` has something to do. Takes no lock."""
    return await tx.one(sql.stalled_order, queue=queue) is not None


async def look(tx: Tx, routes: str) -> Signs:
    """Poll for the relays of these routes."""
    rows = await tx.all(sql.outbox_signs, routes=routes)
    return Signs(
        await claims.next_due(tx),
        frozenset(queue for queue, claimable, _ in rows if claimable),
        frozenset(queue for queue, _, parked in rows if parked),
    )
