"""Reads: one flow, its members and edges, what it came to, and many flows."""

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
    """Flows, newest first."""
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
    """How many members are in each state that has any."""
    await get_flow(tx, flow_id)
    return {state: int(n) for state, n in await tx.all(sql.count_members, flow=flow_id)}


async def counts_of_flows(tx: Tx, flow_ids: Sequence[str], tenant: str | None = None) -> dict[str, dict[str, int]]:
    """The same of several at once. One that has no members, or is not there, is left out."""
    found: dict[str, dict[str, int]] = {}
    for flow, state, n in await tx.all(sql.count_members_of, flows=json.dumps(list(flow_ids)), tenant=tenant):
        found.setdefault(flow, {})[state] = int(n)
    return found


async def flow_graph(tx: Tx, flow_id: str) -> FlowGraph:
    """Members by name, and edges."""
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
    """The members that nobody waits for, by name, with what they came to."""
    await get_flow(tx, flow_id)
    rows = await tx.all(sql.flow_sinks, flow=flow_id)
    return [
        FlowEnd(
            id, name, task, _state(state), await values.load_any(tx, result), last_error(state, reason, error), reason
        )
        for id, name, task, state, result, error, reason in rows
    ]


async def members_behind(tx: Tx, job_id: str) -> set[str]:
    """The members that cannot start before this one has ended, directly or through others."""
    return {id for (id,) in await tx.all(sql.members_behind, id=job_id)}


def _state(text: str) -> JobState:
    try:
        return JobState(text)
    except ValueError as wrong:
        raise Corruption(f"a member has a state that this version does not know: {text!r}") from wrong
