"""Claim ready jobs for a worker. Finishing one batch and claiming the next share a transaction, finish first."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ....model.jobs import Claimed
from ....model.limits import ActiveLimits
from ....model.outcomes import Finish, Verdict
from ....model.routing import Route
from ....rules.webhooks import asks_for_all
from ...port import Row, Tx
from ...statements import sql
from .. import events
from ..limits.breakers import unblock
from ..limits.lanes import balance, unpark_by_quotas, unpark_by_tokens
from ..routing.affinities import Routing, look_ahead, note
from .finishing import Record, record

# Claims themselves make rows claimable that have come due, page by page until none is left: the most urgent job
# may be the last that came due. A claim after a long outage processes at most this many pages.
_PROMOTED_AT_ONCE: Final = 1_000
_PAGES_PER_CLAIM: Final = 30


_NONE: Final = ActiveLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A worker's request for at most `n` jobs, of which at most `suspects` had their worker lost before.

    `token` is unique per claim: a claim whose reply was lost is read again by it.
    """

    owner: str
    token: str
    routes: str
    n: int
    suspects: int = 0
    alone: bool = False
    standing: ActiveLimits = _NONE
    parts: tuple[tuple[str, int], ...] = ()
    """The same routes in order, in parts with a maximum each: for queues of which the worker may run only some jobs."""
    routing: Routing | None = None
    """None unless one of the routes has an affinity or names the worker."""
    beyond: str | None = None
    """The same routes without jobs that were probably claimed before. If too few are found, all routes are searched."""

    @property
    def is_simple(self) -> bool:
        """Return whether one statement may be enough."""
        its = self.standing
        special = self.alone or self.parts or self.routing is not None
        return not (special or its.lanes or its.scopes or its.breakers or its.quotas or its.verbose_queues)


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one round trip of a worker."""

    verdicts: list[Verdict]
    claimed: list[Claimed]
    parked: int = 0
    """Jobs that were next in order but over a limit; there may be others behind them."""
    others_wait: bool = False
    """True if there are jobs of affinities for which the worker has no slot now."""
    met_limits: bool = False
    """True if jobs with limits were finished, claimed or parked, so that others may have become claimable."""


def encode_routes(tiers: Sequence[Sequence[Route]]) -> str:
    """Encode the routes that a worker serves, the first tier before the second."""
    return json.dumps(
        [
            {"route": route.number, "queue": route.queue, "tier": tier}
            for tier, routes in enumerate(tiers)
            for route in routes
        ]
    )


async def turn(tx: Tx, owner: str, finishes: Sequence[Finish], request: ClaimRequest | None) -> Turn:
    """Record the finished jobs, then claim as many as there are free slots for."""
    # Claim-first deadlocked on Postgres: every transaction locks finished rows before new ones.
    standing = request.standing if request else ActiveLimits()
    done = await record(tx, owner, finishes, standing.cooled) if finishes else Record([], [])
    taken, others_wait = await _take(tx, request) if request else ([], False)
    claimed, parked = await balance(tx, done.freed, taken, standing, done.closed)
    if request and request.routing:
        claimed = await note(tx, request.owner, request.routing, claimed)
    if verbose := [
        job for job in claimed if job.queue in standing.verbose_queues or (job.tags and asks_for_all(job.tags))
    ]:
        await events.started(tx, owner, verbose)
    met_limits = bool(done.freed or parked) or any(job.limits is not None for job in claimed)
    return Turn(done.verdicts, claimed, parked, others_wait, met_limits)


async def claim(tx: Tx, request: ClaimRequest) -> list[Claimed]:
    """Claim the first ready jobs of the worker's routes that their limits allow, in order."""
    return (await turn(tx, request.owner, [], request)).claimed


async def _take(tx: Tx, request: ClaimRequest) -> tuple[list[Claimed], bool]:
    overdue, suspects = await tx.one(sql.claim_signs) or (True, True)
    if overdue:
        await promote(tx)
    await unpark_by_tokens(tx, request.standing.scopes)
    if request.standing.quotas:
        await unpark_by_quotas(tx)
    await unblock(tx, request.standing.breakers)
    # A job that has just come due may be a suspect too.
    suspects = bool(request.suspects and (suspects or overdue))
    if request.routing is None or not request.routing.affinities:
        return _in_order(await _claim(tx, request, suspects=suspects)), False
    return await _take_by_affinity(tx, request, request.routing, suspects=suspects)


async def promote(tx: Tx) -> None:
    """Make rows claimable that have come due."""
    for _ in range(_PAGES_PER_CLAIM):
        if len(await tx.all(sql.promote_due, n=_PROMOTED_AT_ONCE)) < _PROMOTED_AT_ONCE:
            return


async def _take_by_affinity(
    tx: Tx, request: ClaimRequest, routing: Routing, *, suspects: bool
) -> tuple[list[Claimed], bool]:
    """Claim from the routes without an affinity, and from those whose affinities the worker chooses."""
    choices = await look_ahead(tx, request.owner, routing, request.routes, suspects=suspects)
    jobs: list[Claimed] = []
    while choices.next() or not jobs:
        narrowed = replace(
            request,
            n=request.n - len(jobs),
            suspects=max(0, request.suspects - sum(job.suspect for job in jobs)),
            routes=choices.only(request.routes),
            parts=tuple((choices.only(routes), most) for routes, most in request.parts),
        )
        found = await _claim(tx, narrowed, suspects=suspects)
        jobs += found
        choices.take(found)
        # `parts` limit each queue, so they can be applied only once.
        if choices.is_over or request.parts or len(jobs) >= request.n:
            break
    return _in_order(jobs), choices.others_wait


async def _claim(tx: Tx, request: ClaimRequest, *, suspects: bool) -> list[Claimed]:
    rows = []
    if suspects:
        rows += await tx.all(
            sql.claim_suspects,
            owner=request.owner,
            claim=request.token,
            routes=request.routes,
            n=request.suspects,
            alone=int(request.alone),
        )
    if not (rows and request.alone):
        for routes, most in request.parts or _looks(request):
            if (n := min(most, request.n - len(rows))) > 0:
                rows += await _claim_from(tx, request, routes, n)
    return [Claimed(*row) for row in rows]


async def _claim_from(tx: Tx, request: ClaimRequest, routes: str, n: int, *, lone: bool = False) -> list[Row]:
    return await tx.all(sql.claim_jobs, owner=request.owner, claim=request.token, routes=routes, n=n, lone=int(lone))


def _looks(request: ClaimRequest) -> tuple[tuple[str, int], ...]:
    all_of_them = (request.routes, request.n)
    return (all_of_them,) if request.beyond is None else ((request.beyond, request.n), all_of_them)


async def lone_claim(tx: Tx, request: ClaimRequest) -> Turn | None:
    """Make a simple claim with one statement and no transaction; None where more is needed."""
    if rows := await _claim_from(tx, request, request.routes, request.n, lone=True):
        return Turn([], _in_order([Claimed(*row) for row in rows]))
    due, ready, suspects, *_ = await tx.one(sql.what_stands) or (0, True, True)
    return None if ready or suspects or (due is not None and due <= 0) else Turn([], [])


async def claimed_under(tx: Tx, owner: str, token: str) -> list[Claimed]:
    """Return the jobs of a claim whose reply was lost."""
    rows = await tx.all(sql.claimed_under, owner=owner, claim=token)
    return _in_order([Claimed(*row) for row in rows])


async def next_due(tx: Tx) -> int | None:
    """Return the microseconds until a future row becomes claimable; None if there is none."""
    row = await tx.one(sql.next_due)
    return row[0] if row else None


async def suspects_wait(tx: Tx, routes: Collection[int]) -> bool:
    """Return whether a suspect job, which must run isolated, waits on one of these routes."""
    return any(route in routes for (route,) in await tx.all(sql.routes_of_suspects))


def _in_order(jobs: list[Claimed]) -> list[Claimed]:
    # RETURNING guarantees no order.
    return sorted(jobs, key=lambda job: (-job.priority, job.rank, job.id))
