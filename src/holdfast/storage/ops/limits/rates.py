"""Rates across the cluster: a token bucket per scope, and queues that cool down when they are throttled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ....clock import SECOND
from ....errors import NotFound
from ....model.limits import ActiveLimits, Rate
from ...port import Tx
from ...statements import sql

# A success counts as recovery only this long after the cool-down ended.
_RECOVERY: Final = 120 * SECOND
_LONGEST_COOL_DOWN: Final = 900 * SECOND
"""Repeated throttles make a window no longer than this, unless a longer one is asked for."""
_READY_AT_ONCE: Final = 100
"""Buckets of keys that one claim reads."""
_PRUNED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Stock:
    """A locked bucket: its tokens, the tokens added per second, and the time of the reading."""

    tokens: float
    refill: float
    at: int

    def wait(self, spent: int = 0) -> int:
        """Return the microseconds until it has a token."""
        return max(0, round((1 - self.tokens + spent) / self.refill * SECOND))


async def lock(tx: Tx, scopes: Mapping[str, str | None]) -> dict[str, Stock]:
    """Lock these buckets in one order. A key's missing bucket is created if its rate exists. Others are left out.

    Each scope comes with the rate that it is a key of, if any.
    """
    found: dict[str, Stock] = {}
    for scope in sorted(scopes):
        row = await tx.one(sql.lock_bucket, scope=scope)
        if row is None and (base := scopes[scope]) is not None:
            await tx.one(sql.make_keyed_bucket, scope=scope, base=base)
            row = await tx.one(sql.lock_bucket, scope=scope)
        if row is not None:
            found[scope] = Stock(*row)
    return found


async def spend(tx: Tx, stocks: Mapping[str, Stock], spent: Counter[str], waits: Collection[str]) -> None:
    """Write every locked bucket, also one that gave nothing: its time must follow a clock that steps back.

    `waits` are those for which jobs are parked now.
    """
    for scope in sorted(stocks):
        stock, n = stocks[scope], spent[scope]
        await tx.one(
            sql.set_tokens, scope=scope, tokens=stock.tokens - n, at=stock.at, wait=stock.wait(n),
            waits=int(scope in waits),
        )  # fmt: skip


async def ready(tx: Tx) -> list[tuple[str, int]]:
    """Return buckets of keys that have tokens for waiting jobs, the longest overdue first, each with how many."""
    # At least one: after a clock was set back the bucket has less than it said, and a job unparked too early is parked.
    return [(scope, max(1, int(there))) for scope, there in await tx.all(sql.ready_buckets, n=_READY_AT_ONCE)]


async def next_ready(tx: Tx) -> int | None:
    """Return the microseconds until a key's bucket has a token for a waiting job; None if there is none."""
    row = await tx.one(sql.next_ready_bucket)
    return max(0, row[0]) if row and row[0] is not None else None


async def is_idle(tx: Tx) -> bool:
    """Return whether buckets of keys may be removed: they are full, as new ones would be."""
    return await tx.one(sql.idle_buckets, n=1) is not None or await tx.one(sql.vain_buckets) is not None


async def prune_idle(tx: Tx) -> int:
    """Remove buckets of keys that are full and that no job waits for; return how many."""
    await tx.one(sql.quiet_buckets)
    return len(await tx.all(sql.prune_idle_buckets, n=_PRUNED_AT_ONCE))


async def acquire(tx: Tx, scope: str) -> int:
    """Take one token; return 0, or the microseconds until there is one. NotFound for an unknown scope."""
    row = await tx.one(sql.lock_bucket, scope=scope)
    if row is None:
        raise NotFound("rate", scope)
    stock = Stock(*row)
    granted = stock.tokens >= 1
    await spend(tx, {scope: stock}, Counter({scope: int(granted)}), ())
    return 0 if granted else max(1, stock.wait())


async def drain(tx: Tx, scope: str) -> None:
    """Empty a bucket: another service refused a call because nothing is left."""
    if await tx.one(sql.empty_bucket, scope=scope) is None:
        raise NotFound("rate", scope)


async def ensure(tx: Tx, scope: str, capacity: float, refill: float, *, origin: str) -> None:
    """Create or change a bucket; code does not change what an operator set."""
    await tx.one(sql.ensure_bucket, scope=scope, capacity=float(capacity), refill=float(refill), origin=origin)


async def remove(tx: Tx, scope: str) -> bool:
    return await tx.one(sql.delete_bucket, scope=scope) is not None


async def list_buckets(tx: Tx) -> list[Rate]:
    """List the rates, without the buckets of their keys."""
    return [
        Rate(
            scope=scope,
            capacity=capacity,
            refill=refill,
            tokens=min(capacity, tokens + max(0, now - at) / SECOND * refill),
            origin=origin,
            keys=0,
        )
        for scope, capacity, refill, tokens, at, origin, now in await tx.all(sql.list_buckets)
    ]


async def count_keys(tx: Tx, buckets: Sequence[Rate]) -> list[Rate]:
    """List the rates, each with how many keys have a bucket."""
    keys: dict[str, int] = dict(await tx.all(sql.count_keyed_buckets))
    return [msgspec.structs.replace(bucket, keys=keys.get(bucket.scope, 0)) for bucket in buckets]


async def standing(tx: Tx) -> ActiveLimits:
    """Return the limits that apply to jobs without being named by them."""
    return ActiveLimits(
        lanes=frozenset(row[0] for row in await tx.all(sql.standing_lanes)),
        scopes=tuple(row[0] for row in await tx.all(sql.bucket_scopes)),
        cooled=frozenset(row[0] for row in await tx.all(sql.throttled_queues)),
    )


async def cool_queues(tx: Tx, cooled: Mapping[str, int], warmed: Collection[str]) -> None:
    """Cool down queues, each for its delay, and end the cool-down of others. Locked by name in one order."""
    for queue in sorted({*cooled, *warmed}):
        if queue in cooled:
            await cool(tx, queue, cooled[queue])
        else:
            await warm(tx, queue)


async def cool(tx: Tx, queue: str, delay: int) -> None:
    """Claim nothing from a queue for a while; only the first report opens the window.

    Each window since the queue last recovered is twice as long as the one before.
    """
    await tx.one(sql.cool_queue, name=queue, delay=delay, most=_LONGEST_COOL_DOWN)


async def warm(tx: Tx, queue: str) -> None:
    """Record that a job of a queue succeeded."""
    await tx.one(sql.warm_queue, name=queue, patience=_RECOVERY)
