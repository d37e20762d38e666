"""Creating flows: whole in one call, or step by step: begin, add members, plan edges, apply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from ...client.tenants import Scoped
from ...errors import BeyondScope, FlowCycle, InvalidFlow, InvalidInput
from ...flows.flow import Flow as FlowBuilder
from ...flows.joins import After, all_of, any_of, quorum
from ...flows.members import Member, Upstream
from ...model.flows import Edge, FlowInfo, Mode, Policy, Rest
from ...rules.flows import MAX_MEMBERS, join_of
from ...values.references import MISSING, Reference
from ..wire.call import Call
from ..wire.operation import Group
from .enqueue import NewJob, request_of
from .types import Acting, Count, Name

group = Group(
    "Make flows", "Create flows whole or step by step; in the latter case no member runs before the flow is applied."
)

_STRETCH: Final = 500
"""The number of members validated before yielding to the event loop."""


class UpstreamMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dependency on a member, and which of its outcomes counts."""

    member: Name
    on: Policy = "success"


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of a member, or the list of results of several; `path` selects a part of it.

    If the member does not succeed, the argument is `default`; without one, the dependent job is skipped.
    """

    of: Name | Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1_000)]
    path: Annotated[list[str | int], msgspec.Meta(max_length=32)] = []
    default: Any = msgspec.UNSET


class NewMember(NewJob, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A member of a flow. It waits for all in `after`, for any, or for a quorum of `needed`.

    `inputs` are arguments, by name, taken from results of other members, which it also waits for. `rest` decides what
    happens to those in `after` that are no longer needed.
    """

    after: Annotated[list[Name | UpstreamMember], msgspec.Meta(max_length=MAX_MEMBERS)] = msgspec.field(
        default_factory=list[Name | UpstreamMember]
    )
    needs: Mode = "all"
    needed: Count | None = None
    rest: Rest = "run"
    inputs: Annotated[dict[str, Output], msgspec.Meta(max_length=256)] = msgspec.field(
        default_factory=dict[str, Output]
    )


class NewFlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A flow to create. `on_success` and `on_failure` are jobs to enqueue after it has finished."""

    name: Name
    members: Annotated[dict[Name, NewMember], msgspec.Meta(min_length=1, max_length=MAX_MEMBERS)]
    tenant: Name | None = None
    on_success: NewJob | None = None
    on_failure: NewJob | None = None


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


class FlowMade(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that was stored: the ids of its jobs by their names."""

    id: str
    name: str
    members: dict[str, str]


class FlowMembersAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the jobs by their names, and the revision of the graph now."""

    id: str
    members: dict[str, str]
    revision: int


class FlowStaged(msgspec.Struct, frozen=True, kw_only=True):
    """The revision of the graph after edges were planned."""

    id: str
    revision: int


class FlowApplied(msgspec.Struct, frozen=True, kw_only=True):
    """The number of planned edges that count from now on."""

    id: str
    applied: int
    changed: bool


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
async def begin_flow(call: Call, body: FlowBegin) -> FlowInfo:
    """Create an empty flow. No member runs before the flow is applied."""
    flow: FlowInfo = await call.client.flows.abegin(body.name, tenant=_tenant(call, body.tenant))
    return flow


@group.post("/flows/{flow_id}/members", needs="enqueue", status=201, bulk=True)
async def add_members(call: Call, flow_id: Name, body: MoreMembers) -> FlowMembersAdded:
    """Add jobs to a flow that is created step by step."""
    flows = call.client.flows
    ids = await flows.aadd(
        await flows.astatus(flow_id), {name: request_of(call, new) for name, new in body.members.items()}
    )
    return FlowMembersAdded(id=flow_id, members=ids, revision=(await flows.astatus(flow_id)).revision)


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


def fill(call: Call, flow: FlowBuilder, members: Mapping[str, NewMember]) -> Iterator[str]:
    """Add the members to a flow, each after its dependencies; yield their names in that order."""
    for name in _in_order(members):
        new = members[name]
        flow.add(request_of(call, _with_results(flow, name, new)), after=_after(flow, name, new), name=name)
        yield name


def _in_order(members: Mapping[str, NewMember]) -> Iterator[str]:
    missing = {name: _upstreams(name, new, members) for name, new in members.items()}
    waiting: dict[str, list[str]] = {}
    for name, upstreams in missing.items():
        for upstream in upstreams:
            waiting.setdefault(upstream, []).append(name)
    free = [name for name, upstreams in missing.items() if not upstreams]
    for name in free:
        yield name
        for downstream in waiting.get(name, ()):
            missing[downstream].discard(name)
            if not missing[downstream]:
                free.append(downstream)
    if stuck := [name for name, upstreams in missing.items() if upstreams]:
        raise FlowCycle(f"these members have circular dependencies, or depend on such members: {', '.join(stuck[:10])}")


def _upstreams(name: str, new: NewMember, members: Mapping[str, NewMember]) -> set[str]:
    awaited, used = map(_awaited, new.after), new.inputs.values()
    named = {one.member for one in awaited} | {source for output in used for source in _of(output)}
    if unknown := named - members.keys():
        raise InvalidFlow(f"member {name!r} depends on {sorted(unknown)[0]!r}, which is not a member of this flow")
    return named


def _after(flow: FlowBuilder, name: str, new: NewMember) -> After:
    awaited: list[Upstream] = [Upstream(flow[one.member], one.on) for one in map(_awaited, new.after)]
    join = join_of(new.needs, new.needed, new.rest, of=f"member {name!r}")
    if join.mode == "all":
        return all_of(*awaited)
    return any_of(*awaited, rest=join.rest) if join.mode == "any" else quorum(join.needed, *awaited, rest=join.rest)


def _with_results(flow: FlowBuilder, name: str, new: NewMember) -> NewJob:
    if not new.inputs:
        return new
    if not isinstance(new.arguments, dict):
        raise InvalidInput(f"member {name!r} has inputs by name: give its arguments by name too")
    if twice := new.inputs.keys() & new.arguments.keys():
        raise InvalidInput(f"member {name!r} has {sorted(twice)[0]!r} both as an argument and as an input")
    results = {argument: _result(flow, used) for argument, used in new.inputs.items()}
    return msgspec.structs.replace(new, arguments={**new.arguments, **results})


def _result(flow: FlowBuilder, used: Output) -> Any:
    default = MISSING if used.default is msgspec.UNSET else used.default
    if isinstance(used.of, str):
        return _reference(flow[used.of], used, default)
    return [_reference(flow[name], used, default) for name in used.of]


def _reference(member: Member[Any], used: Output, default: Any) -> Reference:
    return Reference(member, tuple(used.path), default)


def _awaited(given: str | UpstreamMember) -> UpstreamMember:
    return UpstreamMember(member=given) if isinstance(given, str) else given


def _of(used: Output) -> list[str]:
    return [used.of] if isinstance(used.of, str) else used.of
