"""The poll of an idle worker: the routes it may serve, the limits in force, and when to poll again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ....model.limits import QUOTA_LANE, ActiveLimits
from ....model.queues import QueueRecord
from ....model.routing import Route
from ...port import Tx
from ...statements import sql
from ..jobs.claims import suspects_wait
from ..limits import quotas
from ..limits.breakers import restless
from ..limits.lanes import next_token, parked_lanes
from ..limits.rates import standing
from ..limits.totals import shares_of
from ..queues import list_queues
from ..routing.routes import special_routes


@dataclass(frozen=True, slots=True)
class Lookout:
    """The result of one poll. `next_due` is in microseconds; None if nothing comes due by time alone."""

    routes: list[Route]
    suspects_wait: bool
    standing: ActiveLimits
    shares: dict[str, int]
    """The number of jobs that this worker may run of each queue with a total."""
    next_due: int | None
    may_claim: bool
    """True if there is something that some worker could claim now."""
    queues: list[QueueRecord]
    grants_over: bool = False
    """True if grants have expired that are not ended yet."""


async def look(tx: Tx, worker_id: str, served: Collection[int]) -> Lookout:
    """Poll. One statement finds what exists at all, which is mostly nothing; only that is read."""
    row = await tx.one(sql.what_stands)
    assert row is not None
    due, *found, grant = row
    has = Standings(*map(bool, found))
    breakers, next_trial = await restless(tx) if has.breakers else ((), None)
    next_tokens = await next_token(tx) if has.buckets and has.parked else None
    lanes = await parked_lanes(tx) if has.quotas and has.parked else []
    next_room = await quotas.next_room(tx, lanes)
    waits = [wait for wait in (due, next_tokens, next_room, next_trial, grant) if wait is not None]
    limited = has.lanes or has.buckets or has.queues
    queues = await list_queues(tx) if has.queues else []
    verbose = frozenset(queue.name for queue in queues if queue.events == "all")
    return Lookout(
        routes=await special_routes(tx) if has.routes or grant is not None else [],
        suspects_wait=has.suspects and await suspects_wait(tx, served),
        standing=replace(
            await standing(tx) if limited else ActiveLimits(),
            breakers=breakers,
            quotas=any(lane.startswith(QUOTA_LANE) for lane in lanes),
            verbose_queues=verbose,
        ),
        shares=await shares_of(tx, worker_id) if has.queues else {},
        next_due=min(waits, default=None),
        may_claim=has.ready or has.suspects or any(wait <= 0 for wait in waits),
        queues=queues,
        grants_over=grant is not None and grant <= 0,
    )


@dataclass(frozen=True, slots=True)
class Standings:
    """Flags for what exists."""

    ready: bool
    suspects: bool
    parked: bool
    routes: bool
    lanes: bool
    buckets: bool
    breakers: bool
    queues: bool
    quotas: bool
