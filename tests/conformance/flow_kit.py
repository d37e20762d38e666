"""Flows with the verbs of the tests. Each member has a queue of its own, so that a test says who runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.ids import ids
from holdfast.model.flows import Edge, FlowGraph, FlowRecord, FlowSpec, Join, Member, Policy
from holdfast.model.jobs import Claimed, JobRecord
from holdfast.model.outcomes import Done, Failed, Outcome, Verdict
from holdfast.storage.ops.flows import dependency_resolution, endings, flow_control, flows
from holdfast.storage.ops.store import verify

from .world import ERROR, World, spec

OK = Done("1")
BROKE = Failed("permanent", ERROR)


@dataclass(frozen=True)
class After:
    """What a member waits for, by name."""

    names: tuple[str, ...]
    join: Join = field(default_factory=Join)
    policy: Policy = "success"


def all_of(*names: str, policy: Policy = "success") -> After:
    return After(names, Join(), policy)


def any_of(*names: str, rest: Any = "run", policy: Policy = "success") -> After:
    return After(names, Join("any", rest=rest), policy)


def quorum(needed: int, *names: str, rest: Any = "run") -> After:
    return After(names, Join("quorum", needed, rest))


@dataclass
class Flow:
    """A stored flow."""

    world: World
    id: str
    ids: dict[str, str]
    owner: str

    def member(self, name: str) -> JobRecord:
        return self.world.job(self.ids[name])

    def state(self, name: str) -> str:
        return str(self.member(name).state)

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in self.ids}

    def record(self) -> FlowRecord:
        return self.world.read(flows.get_flow, self.id)

    def graph(self) -> FlowGraph:
        return self.world.read(flows.flow_graph, self.id)

    def queue(self, name: str) -> str:
        return f"{self.id}.{name}"

    def take(self, name: str) -> Claimed:
        return self.world.take(self.owner, queues=[self.queue(name)])

    def can_start(self, name: str) -> bool:
        return self.member(name).state == "ready"

    def end(self, name: str, outcome: Outcome = OK) -> Verdict:
        """Run a member that can start."""
        return self.world.finish(self.owner, self.take(name), outcome)

    def cancel(self, policy: str = "cancel_all", **options: Any) -> Any:
        return self.world.run(flows.cancel_flow, self.id, policy, **options)

    def add(self, plan: dict[str, Any], **options: Any) -> FlowRecord:
        """Add members, and edges that may name the old ones."""
        members, edges = planned(self, plan)
        return self.world.run(flows.add_members, self.id, members, edges, **options)


def create(world: World, plan: dict[str, Any], **fields: Any) -> Flow:
    """Store a flow: each member by its name, with what it waits for (names, or one of the functions above)."""
    flow = Flow(world, ids.new(), {}, world.worker(queues=["default"]))
    members, edges = planned(flow, plan)
    chosen = {"name": "nightly", **fields}
    world.run(flows.create_flow, FlowSpec(id=flow.id, members=tuple(members), edges=tuple(edges), **chosen))
    return flow


def planned(flow: Flow, plan: dict[str, Any]) -> tuple[list[Member], list[Edge]]:
    """Members and edges; a plan may give a member's fields as a second part."""
    parts = {name: part if isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], dict) else (part, {})
             for name, part in plan.items()}  # fmt: skip
    for name in plan:
        flow.ids.setdefault(name, ids.new())
    members, edges = [], []
    for name, (part, fields) in parts.items():
        after = part if isinstance(part, After) else After(tuple(part or ()))
        chosen = {"id": flow.ids[name], "queue": flow.queue(name), **fields}
        members.append(Member(spec=spec(**chosen), name=name, join=after.join))
        edges += [Edge(flow.ids[upstream], flow.ids[name], after.policy) for upstream in after.names]
    return members, edges


def drain(world: World, most: int = 2_000) -> int:
    """Carry on what operations have left, as every worker does; how many transactions that took."""
    for count in range(most):
        left = world.read(dependency_resolution.left)
        if left.hops:
            world.run(dependency_resolution.resolve_page)
        elif left.sweeps:
            world.run(dependency_resolution.sweep)
        elif left.cancels:
            for flow_id in world.read(flow_control.cancelling):
                world.run(flow_control.cancel_page, flow_id)
        else:
            if left.callbacks:
                world.run(endings.pay_callbacks)
            return count
    raise AssertionError("there is no end to what is left")


def check(world: World) -> None:
    """What must hold at every moment: counters agree with edges and members, and nobody waits for nothing."""
    assert [one for one in world.read(verify, []) if one.broken_by] == []


def names(flow: Flow, wanted: Sequence[str]) -> list[str]:
    """Names of members by their ids."""
    by_id = {id: name for name, id in flow.ids.items()}
    return sorted(by_id[id] for id in wanted)
