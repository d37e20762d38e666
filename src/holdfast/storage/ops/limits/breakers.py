"""Circuit breakers, cluster-wide: closed (all jobs pass), open (none pass for a while) or half-open (one trial job).

While a breaker is closed and its jobs succeed, it is read and never written. Recording outcomes locks breakers after
jobs and before lanes; a claim locks them after lanes, and therefore never waits for them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ....clock import SECOND
from ....errors import NotFound
from ....model.limits import BreakerRecord, breaker_it_follows, breaker_lane
from ....model.outcomes import Finish
from ....rules.limits import Candidate, Ended, after, answered, closed, opened
from ...port import Row, Tx
from ...statements import sql
from .parking import unpark

_LANE: Final = breaker_lane("")
_AT_ONCE: Final = 1000
# A trial job that was unparked has not been claimed: its queue may be paused, or have no worker.
_NEXT_TRY: Final = SECOND // 2


async def judge(tx: Tx, finishes: Sequence[Finish], items: Sequence[Finish], rows: Sequence[Row | None]) -> set[str]:
    """Record in the breakers how runs ended, in the order of `finishes`; return the breakers that stay closed.

    `rows` belong to `items`, which are the same in another order: the new state first, the lanes last.
    """
    shielded = {
        (item.id, item.epoch): row
        for item, row in zip(items, rows, strict=True)
        if row and row[-1] and _LANE in row[-1]
    }
    runs: dict[str, list[Ended]] = {}
    for item in finishes if shielded else ():
        if row := shielded.get((item.id, item.epoch)):
            for scope in _scopes(row[-1]):
                runs.setdefault(scope, []).append(Ended(item.id, item.epoch, answered(item.outcome, row[0])))
    seen = await _read_all(tx, runs)
    moved = {scope for scope, breaker in seen.items() if after(breaker, runs[scope]) != breaker}
    for scope in sorted(moved):
        if breaker := await _lock(tx, scope):
            await _write(tx, after(breaker, runs[scope]))
    return {scope for scope, breaker in seen.items() if scope not in moved and breaker.room is None}


async def gates(tx: Tx, candidates: Iterable[Candidate], closed: Collection[str] = ()) -> dict[str, int]:
    """Return how many jobs each breaker that is not closed lets through, by lane. A missing breaker lets none through.

    `closed` were found closed in this transaction: if another transaction opens one now, these few jobs still pass,
    as they would have a moment ago.
    """
    found: dict[str, int] = {}
    scopes = {one.breaker.removeprefix(_LANE) for one in candidates if one.breaker is not None}.difference(closed)
    seen = await _read_all(tx, scopes)
    for scope in sorted(scopes):
        room = await _room(tx, scope, seen.get(scope) or await _inherited(tx, scope))
        if room is not None:
            found[breaker_lane(scope)] = room
    return found


async def begin_trials(tx: Tx, gates: dict[str, int], accepted: Iterable[Candidate]) -> None:
    """Mark the jobs that passed a breaker that is not closed as its trials."""
    for one in accepted:
        if one.breaker is not None and one.breaker in gates:
            scope = one.breaker.removeprefix(_LANE)
            await tx.one(sql.begin_trial, scope=scope, trial=one.job.id, epoch=one.job.epoch)


async def unblock(tx: Tx, scopes: Iterable[str]) -> None:
    """Unpark the jobs behind these breakers that they would let through."""
    for scope in scopes:
        breaker = await _read(tx, scope)
        if breaker is not None and breaker.room != 0:
            await unpark(tx, breaker_lane(scope), breaker.room or _AT_ONCE)


async def restless(tx: Tx) -> tuple[tuple[str, ...], int | None]:
    """Return the breakers that claims must check, and the µs until the next of them could let a job through."""
    found = [_breaker(row) for row in await tx.all(sql.restless_breakers)]
    waits = [_next_look(breaker) for breaker in found if breaker.waits and not breaker.trial_runs]
    return tuple(breaker.scope for breaker in found), min(waits, default=None)


async def ensure(tx: Tx, scope: str, threshold: int, open_for: int, *, origin: str) -> None:
    """Create or change a breaker; code does not change what an operator set."""
    await tx.one(sql.ensure_breaker, scope=scope, threshold=threshold, open_for=open_for, origin=origin)
    await unblock(tx, [scope])


async def remove(tx: Tx, scope: str) -> bool:
    return await tx.one(sql.delete_breaker, scope=scope) is not None


async def trip(tx: Tx, scope: str, open_for: int | None = None) -> BreakerRecord:
    """Open a breaker by hand, for its usual time unless another is given."""
    breaker = await _lock(tx, scope)
    if breaker is None:
        raise NotFound("breaker", scope)
    return await _write(tx, opened(breaker, open_for))


async def reset(tx: Tx, scope: str) -> BreakerRecord:
    """Close a breaker by hand, and unpark the jobs behind it."""
    breaker = await _lock(tx, scope)
    if breaker is None:
        raise NotFound("breaker", scope)
    return await _write(tx, closed(breaker))


async def get_breaker(tx: Tx, scope: str) -> BreakerRecord:
    breaker = await _read(tx, scope)
    if breaker is None:
        raise NotFound("breaker", scope)
    return breaker


async def list_breakers(tx: Tx) -> list[BreakerRecord]:
    return [_breaker(row) for row in await tx.all(sql.list_breakers)]


async def existing(tx: Tx, scopes: Collection[str]) -> frozenset[str]:
    """Return those of these breakers that exist."""
    return frozenset(await _read_all(tx, scopes))


async def _inherited(tx: Tx, scope: str) -> BreakerRecord | None:
    """Return a tenant's breaker, created with its first job; None where it has none to inherit from."""
    followed = breaker_it_follows(scope)
    if followed is None:
        return None
    await tx.one(sql.inherit_breaker, scope=scope, followed=followed)
    return await _read(tx, scope)


async def _room(tx: Tx, scope: str, breaker: BreakerRecord | None) -> int | None:
    if breaker is None:
        return 0
    if breaker.room != 1:
        return breaker.room
    # The transaction that holds it starts a trial, or records one. Read again after locking: the state from before
    # the lock may be older than another's trial.
    if await tx.one(sql.try_breaker, scope=scope) is None:
        return 0
    breaker = await _read(tx, scope)
    return breaker.room if breaker else 0


async def _write(tx: Tx, breaker: BreakerRecord) -> BreakerRecord:
    trial, epoch = breaker.trial or (None, None)
    await tx.one(
        sql.write_breaker,
        scope=breaker.scope,
        failures=breaker.failures,
        opened_at=breaker.opened_at,
        open_until=breaker.open_until,
        trial=trial,
        epoch=epoch,
        openings=breaker.openings,
    )
    if breaker.state == "closed":
        await unpark(tx, breaker_lane(breaker.scope), _AT_ONCE)
    return breaker


async def _read(tx: Tx, scope: str) -> BreakerRecord | None:
    row = await tx.one(sql.get_breaker, scope=scope)
    return _breaker(row) if row else None


async def _read_all(tx: Tx, scopes: Collection[str]) -> dict[str, BreakerRecord]:
    """Return those that exist."""
    # Reading them one by one, twice, made 15 of the 23 statements of a worker's round trip that delivers to
    # eight endpoints.
    if not scopes:
        return {}
    rows = await tx.all(sql.get_breakers, scopes=json.dumps(sorted(scopes)))
    return {row[0]: _breaker(row) for row in rows}


async def _lock(tx: Tx, scope: str) -> BreakerRecord | None:
    return await _read(tx, scope) if await tx.one(sql.lock_breaker, scope=scope) else None


def _breaker(row: Row) -> BreakerRecord:
    scope, threshold, open_for, failures, opened_at, open_until, trial, epoch, *rest = row
    openings, origin, now, runs, waits = rest
    return BreakerRecord(
        scope=scope,
        threshold=threshold,
        open_for=open_for,
        failures=failures,
        opened_at=opened_at,
        open_until=open_until,
        trial=None if trial is None else (trial, epoch),
        openings=openings,
        origin=origin,
        now=now,
        trial_runs=bool(runs),
        waits=bool(waits),
    )


def _next_look(breaker: BreakerRecord) -> int:
    match breaker.state:
        case "open" if breaker.open_until is not None:
            return max(0, breaker.open_until - breaker.now)
        case "half_open":
            return _NEXT_TRY
        case _:
            return 0


def _scopes(holds: str) -> list[str]:
    return [lane.removeprefix(_LANE) for lane in json.loads(holds) if lane.startswith(_LANE)]
