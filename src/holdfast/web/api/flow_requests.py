"""Flows in requests: members by name, with their dependencies and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from ...errors import FlowCycle, InvalidFlow, InvalidInput
from ...flows.flow import Flow
from ...flows.joins import After, all_of, any_of, quorum
from ...flows.members import Member, Upstream
from ...model.flows import Mode, Policy, Rest
from ...rules.flows import MAX_MEMBERS, join_of
from ...values.references import MISSING, Reference
from ..wire.call import Call
from .enqueue import NewJob, request_of
from .types import Count, Name


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


def fill(call: Call, flow: Flow, members: Mapping[str, NewMember]) -> Iterator[str]:
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


def _after(flow: Flow, name: str, new: NewMember) -> After:
    awaited: list[Upstream] = [Upstream(flow[one.member], one.on) for one in map(_awaited, new.after)]
    join = join_of(new.needs, new.needed, new.rest, of=f"member {name!r}")
    if join.mode == "all":
        return all_of(*awaited)
    return any_of(*awaited, rest=join.rest) if join.mode == "any" else quorum(join.needed, *awaited, rest=join.rest)


def _with_results(flow: Flow, name: str, new: NewMember) -> NewJob:
    if not new.inputs:
        return new
    if not isinstance(new.arguments, dict):
        raise InvalidInput(f"member {name!r} has inputs by name: give its arguments by name too")
    if twice := new.inputs.keys() & new.arguments.keys():
        raise InvalidInput(f"member {name!r} has {sorted(twice)[0]!r} both as an argument and as an input")
    results = {argument: _result(flow, used) for argument, used in new.inputs.items()}
    return msgspec.structs.replace(new, arguments={**new.arguments, **results})


def _result(flow: Flow, used: Output) -> Any:
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
