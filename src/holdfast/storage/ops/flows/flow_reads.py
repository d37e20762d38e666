"""Reads: one flow, its members and edges, its results, and many flows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....errors import Corruption, FlowNotFound
from ....model.flows import EdgeRecord, FlowEnd, FlowFilter, FlowGraph, FlowRecord, MemberRecord
from ....model.jobs import JobState, last_error
from ...port import Tx
from ...statements import sql
from ..jobs import values


async def get_flow(tx: Tx, flow_id: str) -> FlowRecord:
    row = await tx.one(sql.get_flow, id=flow_id)
    if row is None:
        raise FlowNotFound(flow_id)
    return FlowRecord(*row)


async def list_flows(tx: Tx, wanted: FlowFilter) -> list[FlowRecord]:
    """List flows, newest first."""
    rows = await tx.all(
        sql.list_flows,
        before=wanted.before,
        state=None if wanted.state is None else str(wanted.state),
        name=wanted.name,
        tenant=wanted.tenant,
        since=wanted.since,
        until=wanted.until,
        n=wanted.limit,
    )
    return [FlowRecord(*row) for row in rows]


async def flow_counts(tx: Tx, flow_id: str) -> dict[str, int]:
    """Return the number of members in each state that has any."""
    await get_flow(tx, flow_id)
    return {state: int(n) for state, n in await tx.all(sql.count_members, flow=flow_id)}


async def counts_of_flows(tx: Tx, flow_ids: Sequence[str], tenant: str | None = None) -> dict[str, dict[str, int]]:
    """Return these counts for several flows. A flow that is missing or has no members is left out."""
    found: dict[str, dict[str, int]] = {}
    for flow, state, n in await tx.all(sql.count_members_of, flows=json.dumps(list(flow_ids)), tenant=tenant):
        found.setdefault(flow, {})[state] = int(n)
    return found


async def flow_graph(tx: Tx, flow_id: str) -> FlowGraph:
    """Return members by name, and edges."""
    flow = await get_flow(tx, flow_id)
    members = [
        MemberRecord(id, name, task, queue, _state(state), *rest)
        for id, name, task, queue, state, *rest in await tx.all(sql.flow_members, flow=flow_id)
    ]
    edges = [
        EdgeRecord(upstream, downstream, policy, bool(applied), None if met is None else bool(met))
        for upstream, downstream, policy, applied, met in await tx.all(sql.flow_edges, flow=flow_id)
    ]
    return FlowGraph(flow, tuple(members), tuple(edges))


async def flow_ends(tx: Tx, flow_id: str) -> list[FlowEnd]:
    """Return the members that no other waits for, by name, with their results."""
    await get_flow(tx, flow_id)
    rows = await tx.all(sql.flow_sinks, flow=flow_id)
    return [
        FlowEnd(
            id, name, task, _state(state), await values.load_any(tx, result), last_error(state, reason, error), reason
        )
        for id, name, task, state, result, error, reason in rows
    ]


async def members_behind(tx: Tx, job_id: str) -> set[str]:
    """Return the members that cannot start before this one has ended, directly or through others."""
    return {id for (id,) in await tx.all(sql.members_behind, id=job_id)}


def _state(text: str) -> JobState:
    try:
        return JobState(text)
    except ValueError as wrong:
        raise Corruption(f"a member has a state that this version does not know: {text!r}") from wrong
