"""From a flow as it was written to what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import codec
from ..errors import ForeignMember
from ..flows.builder import Node
from ..flows.flow import Extension, Flow
from ..flows.joins import edges_to
from ..ids import ids
from ..model.flow import Edge, FlowSpec, Member
from ..model.job import JobSpec
from ..references import MISSING, Use, encode_inputs
from ..tasks import JobRequest
from .specs import spec_of


def plan_flow(flow: Flow, trace: str | None) -> FlowSpec:
    """The whole flow as one value."""
    return FlowSpec(
        id=flow.id,
        name=flow.name,
        tenant=flow.tenant,
        members=tuple(plan_member(node, flow.tenant, trace) for node in flow.nodes),
        edges=tuple(plan_edges(flow.nodes)),
        on_success=_callback(flow.on_success, flow.tenant, trace),
        on_failure=_callback(flow.on_failure, flow.tenant, trace),
    )


def plan_extension(extension: Extension, name: str, tenant: str, trace: str | None) -> list[Member]:
    """Members whose names begin with that of the member that adds them, and of which of its lives."""
    life = f"{name}~{extension.generation}" if extension.generation else name
    planned = [plan_member(node, tenant, trace) for node in extension.nodes]
    return [replace(member, name=f"{life}/{member.name}") for member in planned]


def plan_member(node: Node, tenant: str, trace: str | None) -> Member:
    request, member = node.request, node.member
    if request.options.tenant not in (None, tenant):
        raise ForeignMember(
            f"{member.name!r} is for tenant {request.options.tenant!r}, its flow for {tenant!r}; leave its tenant out"
        )
    return Member(
        spec=spec_of(request, tenant=tenant, id=member.id, trace=trace),
        name=member.name,
        join=node.after.join,
        inputs=_inputs(request.uses),
    )


def plan_edges(nodes: Sequence[Node]) -> list[Edge]:
    return [edge for node in nodes for edge in edges_to(node.member, node.after)]


def plan_staged(requests: Mapping[str, JobRequest[Any]], tenant: str, trace: str | None) -> list[Member]:
    """Jobs by name, with nothing to wait for yet."""
    named = zip(requests.items(), ids.many(len(requests)), strict=True)
    return [
        Member(spec=spec_of(request.complete(), tenant=tenant, id=new, trace=trace), name=name)
        for (name, request), new in named
    ]


def _inputs(uses: Sequence[Use]) -> str | None:
    if not uses:
        return None
    return encode_inputs(uses, [_default(use) for use in uses])


def _default(use: Use) -> str | None:
    value = use.reference.default
    return None if value is MISSING else codec.encode(value, what=f"the default of {use.reference!r}")


def _callback(request: JobRequest[Any] | None, tenant: str, trace: str | None) -> JobSpec | None:
    return spec_of(request, tenant=tenant, trace=trace) if request is not None else None
