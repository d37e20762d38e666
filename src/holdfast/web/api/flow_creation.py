"""Creating flows: whole in one call, or step by step: begin, add members, plan edges, apply."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec

from ...client.tenants import Scoped
from ...errors import BeyondScope, InvalidFlow
from ...flows.flow import Flow as FlowBuilder
from ...model.flows import Edge, Policy
from ...rules.flows import MAX_MEMBERS
from ...shapes.flows import Flow, FlowApplied, FlowMade, FlowMembersAdded, FlowStaged, of_flow
from ..wire.call import Call
from ..wire.operation import Group
from .enqueue import NewJob, request_of
from .flow_requests import NewFlow, fill
from .types import Acting, Name

group = Group(
    "Make flows", "Create flows whole or step by step; in the latter case no member runs before the flow is applied."
)

_STRETCH: Final = 500
"""The number of members validated before yielding to the event loop."""


class FlowBegin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A flow without members."""

    name: Name
    tenant: Name | None = None


class MoreMembers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Jobs by name; they wait for `apply`."""

    members: Annotated[dict[Name, NewJob], msgspec.Meta(min_length=1, max_length=MAX_MEMBERS)]


class NewEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dependency: `to` waits for `from` to end this way. Members are given by name or job id."""

    upstream: Name = msgspec.field(name="from")
    downstream: Name = msgspec.field(name="to")
    on: Policy = "success"


class NewEdges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Edges to plan, if the graph is still at that revision."""

    edges: Annotated[list[NewEdge], msgspec.Meta(min_length=1, max_length=10 * MAX_MEMBERS)]
    revision: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@group.post("/flows", needs="enqueue", status=201, bulk=True, confines=True)
async def create_flow(call: Call, body: NewFlow) -> FlowMade:
    """Create a flow in one transaction.

    Members without dependencies can start immediately.
    """
    flow = _builder(call, body)
    for count, _ in enumerate(fill(call, flow, body.members), 1):
        if not count % _STRETCH:
            await asyncio.sleep(0)
    await flow.astart()
    members = {node.member.name: node.member.id for node in flow.nodes}
    return FlowMade(id=flow.id, name=flow.name, members=members)


@group.post("/flows/staged", needs="enqueue", status=201)
async def begin_flow(call: Call, body: FlowBegin) -> Flow:
    """Create an empty flow. No member runs before the flow is applied."""
    return of_flow(await call.client.flows.abegin(body.name, tenant=_tenant(call, body.tenant)))


@group.post("/flows/{flow_id}/members", needs="enqueue", status=201, bulk=True)
async def add_members(call: Call, flow_id: Name, body: MoreMembers) -> FlowMembersAdded:
    """Add jobs to a flow that is created step by step."""
    flows = call.client.flows
    record = (await flows.astatus(flow_id)).record
    ids = await flows.aadd(record, {name: request_of(call, new) for name, new in body.members.items()})
    return FlowMembersAdded(id=flow_id, members=ids, revision=(await flows.astatus(flow_id)).record.revision)


@group.post("/flows/{flow_id}/edges", needs="enqueue", bulk=True)
async def stage_edges(call: Call, flow_id: Name, body: NewEdges) -> FlowStaged:
    """Plan dependencies between members.

    409 `stale_revision` if the graph has changed in the meantime.
    """
    members = (await call.client.flows.agraph(flow_id)).members
    jobs = {member.id: member.id for member in members} | {member.name: member.id for member in members}
    edges = [Edge(_job(jobs, edge.upstream), _job(jobs, edge.downstream), edge.on) for edge in body.edges]
    return FlowStaged(id=flow_id, revision=await call.client.flows.astage(flow_id, edges, revision=body.revision))


@group.post("/flows/{flow_id}/apply", needs="enqueue")
async def apply_flow(call: Call, flow_id: Name, body: Acting) -> FlowApplied:
    """Apply the planned edges, and start the members without dependencies.

    Repeating it changes nothing.
    """
    applied = await call.client.flows.aapply(flow_id)
    return FlowApplied(id=flow_id, applied=applied, changed=bool(applied))


def _builder(call: Call, body: NewFlow) -> FlowBuilder:
    tenant, client = _tenant(call, body.tenant), call.client
    success = None if body.on_success is None else request_of(call, body.on_success)
    failure = None if body.on_failure is None else request_of(call, body.on_failure)
    if isinstance(client, Scoped):
        return client.flow(body.name, on_success=success, on_failure=failure)
    return client.flow(body.name, tenant=tenant, on_success=success, on_failure=failure)


def _tenant(call: Call, given: str | None) -> str | None:
    own = call.identity.tenant
    if own and given not in (None, own):
        raise BeyondScope("a flow of another tenant", own)
    return given


def _job(jobs: dict[str, str], member: str) -> str:
    if member not in jobs:
        raise InvalidFlow(f"{member!r} is not a member of this flow")
    return jobs[member]
