"""Bugs that earlier systems shipped in their flows. Each is a test here."""

from __future__ import annotations

import pytest

from holdfast.clock import SECOND
from holdfast.errors import FlowCycle
from holdfast.model.flows import Edge, FlowState
from holdfast.model.outcomes import Done, Lost, Recorded
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions

from .flow_kit import BROKE, create, drain, planned
from .world import LEASE, World


def test_d2_a_member_that_the_cancel_of_its_flow_has_ended_cannot_be_completed(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    stale = flow.take("a")
    # Its worker was lost, and the member waits for another when the flow is cancelled.
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(flow.owner)
    flow.cancel("cancel_all")
    assert flow.states() == {"a": "cancelled", "b": "cancelled"}
    before = world.row(flow.ids["a"]), flow.record()
    assert world.finish(flow.owner, stale, Done("1")) == Lost()
    assert (world.row(flow.ids["a"]), flow.record()) == before


def test_d2_a_member_that_was_cancelled_by_force_cannot_be_completed(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    stale = flow.take("a")
    world.run(actions.cancel, stale.id, force=True)
    assert world.finish(flow.owner, stale, Done("1")) == Lost()
    drain(world)
    assert flow.states() == {"a": "cancelled", "b": "skipped"}
    assert flow.record().state is FlowState.FAILED


def test_d2_completing_twice_counts_once(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    claimed = flow.take("a")
    assert world.finish(flow.owner, claimed, Done("1")) == Recorded("succeeded")
    assert world.finish(flow.owner, claimed, Done("1")) == Recorded("succeeded", again=True)
    assert world.finish(flow.owner, claimed, BROKE) == Recorded("succeeded", again=True)
    assert (flow.state("c"), flow.record().live) == ("blocked", 2)


def test_d6_a_child_cannot_be_claimed_before_its_dependencies_have_ended(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    for name in "ab":
        assert world.claim(flow.owner, queues=[flow.queue("c")]) == []
        flow.end(name)
    assert flow.take("c").id == flow.ids["c"]


def test_d6_a_child_does_not_run_before_an_edge_that_is_applied_late(world: World) -> None:
    flow = create(world, {"a": (), "b": ()})
    world.run(flows.stage_edges, flow.id, [Edge(flow.ids["a"], flow.ids["b"])], 1)
    world.run(flows.apply_edges, flow.id)
    assert world.claim(flow.owner, queues=[flow.queue("b")]) == []
    flow.end("a")
    flow.end("b")


def test_d6_an_operator_cannot_start_a_child_before_its_dependencies(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    with pytest.raises(Exception, match="only a ready or parked job can be run now"):
        world.run(actions.run_now, flow.ids["b"])
    assert flow.state("b") == "blocked"


@pytest.mark.parametrize("length", [2, 3, 50])
def test_d6_cycles_are_refused_however_they_are_made(each_store: World, length: int) -> None:
    world = each_store
    chain = {f"m{i}": (f"m{i - 1}",) for i in range(1, length)}
    with pytest.raises(FlowCycle):
        create(world, {"m0": (f"m{length - 1}",), **chain})
    flow = create(world, {"m0": (), **chain})
    back = Edge(flow.ids[f"m{length - 1}"], flow.ids["m0"])
    with pytest.raises(FlowCycle):
        world.run(flows.stage_edges, flow.id, [back], flow.record().revision)
    members, edges = planned(flow, {"more": (f"m{length - 1}",)})
    with pytest.raises(FlowCycle):
        world.run(flows.add_members, flow.id, members, [*edges, Edge(flow.ids["more"], flow.ids["m0"])])
    assert flow.record().members == length
