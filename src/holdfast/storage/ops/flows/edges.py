"""Dependencies between jobs: edges, and the counters that they add up to.

Every transaction locks in one order: jobs by id, then edges, joins by id, children by id, flows by id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ....errors import DuplicateEdge, IllegalMove
from ....model.flows import Edge, Join
from ...port import Params, Tx
from ...statements import sql

HOPS: Final = "hops"
"""The topic that wakes the workers that resolve the remaining ends."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A job's current counters. Their sum is the number of ends still to come."""

    job_id: str
    awaits: int
    spare: int
    rest: str

    @property
    def is_free(self) -> bool:
        return self.awaits <= 0

    @property
    def is_impossible(self) -> bool:
        return self.awaits > 0 and self.spare < 0


async def await_jobs(tx: Tx, job_id: str, upstreams: Collection[str]) -> bool:
    """Let a job that is being suspended wait for other jobs; True if all of them have ended or are gone.

    It replaces what the job waited for before. When the last one ends, `suspension.jobs_ended` is called.
    """
    await tx.one(sql.drop_wait_edges, job_id=job_id)
    await tx.one(sql.drop_wait_join, job_id=job_id)
    # From here on their ends are recorded: they are locked until our commit.
    live = [id for (id,) in await tx.all(sql.link_upstreams, ids=as_list(upstreams))]
    if not live:
        return True
    await insert_edges(tx, [Edge(id, job_id, "any") for id in live], kind="wait")
    await insert_joins(tx, {job_id: Join()}, {job_id: len(live)}, kind="wait")
    return False


async def insert_edges(tx: Tx, edges: Sequence[Edge], *, kind: str = "flow", applied: bool = True) -> None:
    rows: list[Params] = [
        {"upstream": edge.upstream, "downstream": edge.downstream, "policy": edge.policy} for edge in edges
    ]
    if not rows:
        return
    fresh = await tx.each(sql.insert_edge, rows, kind=kind, applied=int(applied))
    for edge, row in zip(edges, fresh, strict=True):
        if row is None:
            raise DuplicateEdge(f"job {edge.downstream} waits for job {edge.upstream} already")


async def insert_joins(
    tx: Tx,
    joins: Mapping[str, Join],
    upstreams: Mapping[str, int],
    depths: Mapping[str, int] | None = None,
    *,
    kind: str = "flow",
    applied: bool = True,
) -> None:
    """Insert counters of jobs that wait for other jobs, none of which has ended. Existing counters stay."""
    depths, rows = depths or {}, list[Params]()
    for job_id, join in sorted(joins.items()):
        n = upstreams.get(job_id, 0)
        needed = {"all": n, "any": min(n, 1)}.get(join.mode, join.needed)
        # A planned join waits for its application.
        awaits, spare = (needed, n - needed) if applied else (1, 0)
        rows.append(
            {
                "job_id": job_id,
                "mode": join.mode,
                "rest": join.rest,
                "needed": join.needed,
                "depth": depths.get(job_id, 1),
                "awaits": awaits,
                "spare": spare,
            }
        )
    if rows:
        await tx.each(sql.insert_join, rows, kind=kind, applied=int(applied))


async def block(tx: Tx, ids: Collection[str]) -> None:
    """Keep these jobs from starting; IllegalMove where one has started or ended."""
    if not ids:
        return
    blocked = {id for (id,) in await tx.all(sql.block_members, ids=as_list(ids))}
    if started := sorted(set(ids) - blocked):
        raise IllegalMove(
            f"job {started[0]} has started or ended; it can no longer be made to wait for others; "
            "add a new member instead"
        )


async def recount(tx: Tx, ids: Collection[str]) -> list[Counted]:
    """Recount the edges of these jobs."""
    if not ids:
        return []
    await tx.one(sql.lock_joins, ids=as_list(ids))
    return [Counted(*row) for row in await tx.all(sql.recount_joins, ids=as_list(ids))]


async def count(tx: Tx, marked: Iterable[tuple[str, str, int]]) -> tuple[list[Counted], list[str]]:
    """Subtract edges that were just marked; return the members released or made impossible, and the jobs done waiting.

    One row per child, however many of its upstreams ended at once.
    """
    tally = Counter(marked)
    children = sorted({(id, kind) for id, kind, _ in tally})
    rows: list[Params] = [
        {"job_id": id, "kind": kind, "met": tally[id, kind, 1], "unmet": tally[id, kind, 0]} for id, kind in children
    ]
    settled, over = list[Counted](), list[str]()
    for (id, kind), row, params in zip(children, await tx.each(sql.count_join, rows), rows, strict=True):
        if row is None:
            continue
        now = Counted(id, *row)
        before = Counted(id, now.awaits + tally[id, kind, 1], now.spare + tally[id, kind, 0], now.rest)
        if (now.is_free, now.is_impossible) == (before.is_free, before.is_impossible):
            continue
        if kind == "flow":
            settled.append(now)
        elif now.is_free:
            over.append(str(params["job_id"]))
    return settled, over


async def settle(tx: Tx, counted: Sequence[Counted]) -> None:
    """Release members whose requirements are met, skip those whose requirements can no longer be met."""
    free = [one for one in counted if one.is_free]
    if free:
        for (queue,) in set(await tx.all(sql.release_members, ids=as_list(one.job_id for one in free))):
            tx.notify(f"queue:{queue}")
    if sweeps := [one.job_id for one in free if one.rest == "cancel" and one.awaits + one.spare > 0]:
        await tx.one(sql.begin_sweep, ids=as_list(sweeps))
        tx.notify(HOPS)
    impossible = [one.job_id for one in counted if one.is_impossible]
    if impossible and await tx.all(sql.skip_members, ids=as_list(impossible)):
        # The jobs that wait for them are resolved at the next level.
        tx.notify(HOPS)
        tx.notify("finished")


def as_list(ids: Iterable[str]) -> str:
    return json.dumps(list(ids))
