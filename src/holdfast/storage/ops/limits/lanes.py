"""Concurrency limits. Lanes count the jobs that run in them; a job without a free slot is parked until there is one.

Each transaction locks all its lanes once, in one order, after its jobs: those it finished and those it claimed. So a
slot that was freed can be taken in the same commit, two transactions never deadlock on lanes, and a job is never
parked behind a slot that is being freed at the same moment.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from ....clock import SECOND
from ....model.jobs import Claimed
from ....model.limits import QUOTA_LANE, ActiveLimits, Lane, rate_lane
from ....rules.limits import Candidate, Verdicts, admit, candidate
from ...port import Params, Tx
from ...statements import sql
from ..budgets.reservations import block_short, runs_ended
from . import breakers, quotas, rates
from .parking import unpark

UNUSED_FOR: Final = 3600 * SECOND
"""The time for which a fairness lane is kept after its last rank. A recreated one starts at the head of the queue."""

# Python's part of a claim with keys, by `json` and dataclasses: 10.4 µs a job; by msgspec: 3.7.
_encode = msgspec.json.Encoder().encode
_decode_holds = msgspec.json.Decoder(list[str]).decode


async def balance(
    tx: Tx, freed: Sequence[str], claimed: list[Claimed], standing: ActiveLimits, closed: Collection[str] = ()
) -> tuple[list[Claimed], int]:
    """Free the slots of finished jobs, take those of claimed ones; return the jobs that may start, and how many do not.

    `freed` are the `holds` of jobs that have just left the running state, `closed` the breakers found closed.
    """
    # The most common case: nothing to free, no job limited.
    if not freed and not standing.lanes and not any(job.limits for job in claimed):
        return claimed, 0
    claimed, short = await block_short(tx, claimed)
    candidates = [candidate(job, standing) for job in claimed]
    if not freed and all(one.is_free for one in candidates):
        return claimed, short
    left = Counter(
        lane for holds in freed for lane in _decode_holds(holds) if not lane.startswith(("breaker:", "run:"))
    )
    emptier = await runs_ended(tx, freed)
    lanes = await _lock_all(tx, {*left, *(lane for one in candidates for lane in one.lanes)}, candidates)
    room = {lane.key: lane.capacity - lane.running + left[lane.key] for lane in lanes if lane.capacity is not None}
    gates = await breakers.gates(tx, candidates, closed)
    stocks = await rates.lock(tx, {one.scope: one.base for one in candidates if one.scope is not None})
    quota_rooms = await quotas.lock_rooms(tx, [one for one in candidates if one.quota is not None], emptier)
    tokens = {scope: int(stock.tokens) for scope, stock in stocks.items()}
    verdicts = admit(candidates, room | gates, tokens, quota_rooms.by_job)
    spent = Counter(one.scope for one in verdicts.accepted if one.scope is not None)
    waits = {one.scope for one, lane in verdicts.parked if one.scope is not None and lane == rate_lane(one.scope)}
    await rates.spend(tx, stocks, spent, waits)
    await breakers.begin_trials(tx, gates, verdicts.accepted)
    await _write(tx, verdicts)
    await _move(tx, left, verdicts.joined)
    await quotas.enter(tx, quota_rooms, [one.job for one in verdicts.accepted if one.quota])
    await quotas.note_parked(tx, quota_rooms, emptier, verdicts.by_lane)
    return [one.job for one in verdicts.accepted], len(verdicts.parked) + short


async def release(tx: Tx, holds: Iterable[str | None]) -> None:
    """Free the slots of jobs that have just left the running state."""
    await balance(tx, [text for text in holds if text], [], ActiveLimits())


async def anyone_parked(tx: Tx) -> bool:
    return bool(await parked_lanes(tx))


async def unpark_stalled(tx: Tx) -> int:
    """Unpark jobs in lanes that have room, such as those behind a job that was cancelled while it waited."""
    found = await parked_lanes(tx)
    known = {lane.key: lane for lane in await _lock(tx, found)}
    count = 0
    for key in found:
        lane = known.get(key)
        if lane is not None and (lane.capacity is None or lane.capacity > lane.running):
            count += await unpark(tx, key, 1000 if lane.capacity is None else lane.capacity - lane.running)
        elif lane is None and not key.startswith(("rate:", "breaker:", QUOTA_LANE)):
            count += await unpark(tx, key, 1000)  # its limit was removed
        elif key.startswith("rate:") and await tx.one(sql.rate_without_bucket, scope=key.removeprefix("rate:")):
            count += await unpark(tx, key, 1000)  # the rate was created after the jobs of this key came
    return count + await quotas.unpark_all(tx, found)


async def unpark_by_tokens(tx: Tx, scopes: Collection[str]) -> None:
    """Unpark as many jobs as there are tokens for now."""
    # Read without a lock: buckets are locked after lanes. A job that is unparked too early is parked again.
    for bucket in await rates.list_buckets(tx) if scopes else ():
        if bucket.scope in scopes and bucket.tokens >= 1:
            await unpark(tx, rate_lane(bucket.scope), int(bucket.tokens))
    for scope, tokens in await rates.ready(tx) if scopes else ():
        await unpark(tx, rate_lane(scope), tokens)


async def unpark_by_quotas(tx: Tx) -> None:
    """Unpark as many jobs as the windows of their quotas have room for now."""
    await quotas.unpark_all(tx, await parked_lanes(tx))


async def parked_lanes(tx: Tx) -> list[str]:
    """Return the lanes in which jobs are parked."""
    return [row[0] for row in await tx.all(sql.parked_lanes)]


async def next_token(tx: Tx) -> int | None:
    """Return the microseconds until the first job that waits for a token could have one; None if none waits."""
    waiting = set(await parked_lanes(tx))
    waits = [
        max(0, round((1 - bucket.tokens) / bucket.refill * SECOND))
        for bucket in (await rates.list_buckets(tx) if waiting else ())
        if rate_lane(bucket.scope) in waiting
    ]
    if (ready := await rates.next_ready(tx)) is not None:
        waits.append(ready)
    return min(waits, default=None)


async def set_lane(tx: Tx, key: str, capacity: int, *, origin: str = "operator") -> None:
    """Limit a task or a queue; unpark the jobs that now fit."""
    await tx.one(sql.ensure_lane, key=key, standing=1, capacity=capacity, origin=origin)
    await unpark_stalled(tx)


async def remove_lane(tx: Tx, key: str) -> bool:
    removed = await tx.one(sql.delete_lane, key=key) is not None
    await unpark_stalled(tx)
    return removed


async def unused_lanes(tx: Tx, after: str, n: int) -> list[str]:
    """Return lanes of keys in which no job runs, in order from one on."""
    return [row[0] for row in await tx.all(sql.unused_lanes, after=after, kept=UNUSED_FOR, n=n)]


async def delete_unused(tx: Tx, keys: Iterable[str]) -> None:
    """Delete those of these lanes in which no job runs or is parked."""
    parked = set(await parked_lanes(tx))
    # In one order, like every transaction that locks several lanes.
    for key in sorted(set(keys) - parked):
        await tx.one(sql.delete_unused_lane, key=key, kept=UNUSED_FOR)


async def list_lanes(tx: Tx, n: int = 1000) -> list[Lane]:
    rows = await tx.all(sql.list_lanes, n=n)
    return [Lane(key, bool(standing), *rest) for key, standing, *rest in rows]


async def _lock_all(tx: Tx, keys: set[str], candidates: Iterable[Candidate]) -> list[Lane]:
    """Lock these lanes; create or resize those that a job brings along."""
    lanes = await _lock(tx, keys)
    present = {lane.key: lane.capacity for lane in lanes}
    wanted = dict(pair for one in candidates for pair in one.capacities)
    new = [{"key": key, "capacity": wanted[key]} for key in sorted(wanted) if present.get(key) != wanted[key]]
    if not new:
        return lanes
    await tx.one(sql.ensure_lanes, lanes=json.dumps(new))
    return await _lock(tx, keys)


async def _lock(tx: Tx, keys: Collection[str]) -> list[Lane]:
    rows = await tx.all(sql.lock_lanes, keys=_encode(sorted(keys)).decode()) if keys else []
    return [Lane(key, False, capacity, running) for key, capacity, running in rows]


async def _write(tx: Tx, verdicts: Verdicts) -> None:
    # The claim has noted a job's own lane and its breaker already; the lanes of its task and queue are added here.
    held = [{"id": one.job.id, "holds": json.dumps(one.holds)} for one in verdicts.accepted if one.stands_in_others]
    if held:
        await tx.one(sql.hold_lanes, held=json.dumps(held))
    parked: list[Params] = [{"id": one.job.id, "epoch": one.job.epoch, "lane": lane} for one, lane in verdicts.parked]
    if parked:
        await tx.each(sql.park_job, parked)


async def _move(tx: Tx, left: Counter[str], joined: Counter[str]) -> None:
    """Count the jobs that left and joined, and unpark the next where there is room."""
    deltas = dict(joined)
    for key, count in left.items():
        deltas[key] = deltas.get(key, 0) - count
    moves = {key: delta for key, delta in deltas.items() if delta}
    if not moves:
        return
    for key, room, waits in await tx.all(sql.move_lanes, moves=_encode(moves).decode()):
        if waits and room is not None and room > 0:
            await unpark(tx, key, room)
