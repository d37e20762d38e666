"""Rates across the cluster: a token bucket per scope, and queues that cool down when they are throttled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ...clock import SECOND
from ...errors import NotFound
from ...model.limits import Bucket, Standing
from ..port import Tx
from ..statements import sql

# A success counts as recovery only so long after the cool-down ended.
_RECOVERY: Final = 120 * SECOND


async def lock(tx: Tx, scopes: Iterable[str]) -> dict[str, tuple[float, int]]:
    """The tokens in each bucket and when that was, locked in one order. A scope that does not exist has none."""
    found: dict[str, tuple[float, int]] = {}
    for scope in sorted(scopes):
        if row := await tx.one(sql.lock_bucket, scope=scope):
            found[scope] = (row[0], row[2])
    return found


async def spend(tx: Tx, tokens: Mapping[str, tuple[float, int]], spent: Counter[str]) -> None:
    """Write every bucket that was locked, also one that gave nothing: its time must follow a clock that steps back."""
    for scope in sorted(tokens):
        there, at = tokens[scope]
        await tx.one(sql.set_tokens, scope=scope, tokens=there - spent[scope], at=at)


async def acquire(tx: Tx, scope: str) -> int:
    """Take one token: 0 if it was there, else microseconds until one will be. NotFound for an unknown scope."""
    row = await tx.one(sql.lock_bucket, scope=scope)
    if row is None:
        raise NotFound("rate", scope)
    there, refill, at = row
    granted = there >= 1
    await tx.one(sql.set_tokens, scope=scope, tokens=there - granted, at=at)
    return 0 if granted else max(1, round((1 - there) / refill * SECOND))


async def drain(tx: Tx, scope: str) -> None:
    """Empty a bucket: a refusal elsewhere said that there is nothing left."""
    if await tx.one(sql.empty_bucket, scope=scope) is None:
        raise NotFound("rate", scope)


async def ensure(tx: Tx, scope: str, capacity: float, refill: float, *, origin: str) -> None:
    """Make a bucket, or change it; what an operator set is not changed by code."""
    await tx.one(sql.ensure_bucket, scope=scope, capacity=float(capacity), refill=float(refill), origin=origin)


async def remove(tx: Tx, scope: str) -> bool:
    return await tx.one(sql.delete_bucket, scope=scope) is not None


async def list_buckets(tx: Tx) -> list[Bucket]:
    return [
        Bucket(scope, capacity, refill, min(capacity, tokens + max(0, now - at) / SECOND * refill), origin)
        for scope, capacity, refill, tokens, at, origin, now in await tx.all(sql.list_buckets)
    ]


async def standing(tx: Tx) -> Standing:
    """The limits that apply to jobs without being named by them."""
    return Standing(
        lanes=frozenset(row[0] for row in await tx.all(sql.standing_lanes)),
        scopes=tuple(row[0] for row in await tx.all(sql.bucket_scopes)),
        cooled=frozenset(row[0] for row in await tx.all(sql.throttled_queues)),
    )


async def temper(tx: Tx, cooled: Mapping[str, int], warmed: Collection[str]) -> None:
    """Cool queues, each for its delay, and warm others. One lock order for everybody: by name."""
    for queue in sorted({*cooled, *warmed}):
        if queue in cooled:
            await cool(tx, queue, cooled[queue])
        else:
            await warm(tx, queue)


async def cool(tx: Tx, queue: str, delay: int) -> None:
    """Hand out nothing of a queue for a while; only the first to say so opens the window."""
    await tx.one(sql.cool_queue, name=queue, delay=delay)


async def warm(tx: Tx, queue: str) -> None:
    """Work of a queue succeeded."""
    await tx.one(sql.warm_queue, name=queue, patience=_RECOVERY)
