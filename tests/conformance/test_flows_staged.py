"""Flows made bit by bit, by a caller far away: members, then edges under a revision, then all of it counts."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    DuplicateEdge,
    FlowCycle,
    FlowEnded,
    FlowNotFound,
    ForeignMember,
    IllegalMove,
    InvalidFlow,
    InvalidInput,
    SelfEdge,
    StaleRevision,
)
from holdfast.model.flows import Edge, FlowState
from holdfast.storage.ops.flows import flows

from .flow_kit import BROKE, Flow, all_of, check, create, drain, planned, quorum
from .world import World


def stage(flow: Flow, plan: dict[str, object]) -> int:
    """Add members that wait for their edges, and plan these; the revision."""
    members, edges = planned(flow, plan)
    record = flow.world.run(flows.add_members, flow.id, members, staged=True)
    return flow.world.run(flows.stage_edges, flow.id, edges, record.revision)


def apply(flow: Flow) -> int:
    return flow.world.run(flows.apply_edges, flow.id)


def test_nothing_starts_before_the_edges_are_applied(world: World) -> None:
    flow = create(world, {})
    stage(flow, {"a": (), "b": ("a",)})
    assert set(flow.states().values()) == {"blocked"}
    assert apply(flow) == 1
    assert flow.states() == {"a": "ready", "b": "blocked"}
    flow.end("a")
    flow.end("b")
    assert flow.record().state is FlowState.SUCCEEDED
    check(world)


def test_applying_again_finds_nothing_to_do(world: World) -> None:
    flow = create(world, {})
    stage(flow, {"a": (), "b": ("a",)})
    assert [apply(flow), apply(flow)] == [1, 0]
    flow.end("a")
    assert apply(flow) == 0
    assert flow.state("b") == "ready"
    flow.end("b")
    assert apply(flow) == 0


def test_upstreams_that_have_ended_when_an_edge_is_applied_are_counted(world: World) -> None:
    flow = create(world, {"good": (), "bad": (), "open": ()})
    flow.end("good")
    flow.end("bad", BROKE)
    stage(
        flow, {"b": ("good",), "c": ("bad",), "d": all_of("bad", policy="any"), "e": quorum(2, "good", "bad", "open")}
    )
    assert apply(flow) == 6
    assert [flow.state(name) for name in "bcde"] == ["ready", "skipped", "ready", "blocked"]
    flow.end("open")
    assert flow.state("e") == "ready"
    drain(world)
    check(world)


def test_an_edge_to_a_member_that_could_start_blocks_it_in_the_same_commit(world: World) -> None:
    flow = create(world, {"a": (), "b": ()})
    edge = Edge(flow.ids["a"], flow.ids["b"])
    world.run(flows.stage_edges, flow.id, [edge], flow.record().revision)
    assert flow.state("b") == "ready"
    assert apply(flow) == 1
    assert flow.state("b") == "blocked"
    assert world.claim(flow.owner, queues=[flow.queue("b")]) == []
    flow.end("a")
    assert flow.state("b") == "ready"


def test_an_edge_to_a_member_that_has_started_is_refused_and_nothing_is_applied(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ()})
    ids = flow.ids
    world.run(flows.stage_edges, flow.id, [Edge(ids["a"], ids["b"]), Edge(ids["a"], ids["c"])], 1)
    flow.take("b")
    with pytest.raises(IllegalMove):
        apply(flow)
    assert flow.states() == {"a": "ready", "b": "running", "c": "ready"}
    assert not any(edge.applied for edge in flow.graph().edges)


def test_edges_are_planned_only_on_the_revision_that_the_caller_knows(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ()})
    edges = [Edge(flow.ids["a"], flow.ids["b"]), Edge(flow.ids["b"], flow.ids["c"])]
    revision = flow.record().revision
    assert world.run(flows.stage_edges, flow.id, edges[:1], revision) == revision + 1
    with pytest.raises(StaleRevision):
        world.run(flows.stage_edges, flow.id, edges[1:], revision)
    assert world.run(flows.stage_edges, flow.id, edges[1:], revision + 1) == revision + 2
    assert flow.add({"d": ()}).revision == revision + 3


def test_each_wrong_edge_has_an_error_of_its_own(each_store: World) -> None:
    world, flow = each_store, create(each_store, {"a": (), "b": ("a",)})
    a, b, foreign = flow.ids["a"], flow.ids["b"], create(world, {"x": ()}).ids["x"]
    wrong = [
        (SelfEdge, Edge(a, a)), (FlowCycle, Edge(b, a)), (ForeignMember, Edge(foreign, b)),
        (ForeignMember, Edge("nobody", b)), (DuplicateEdge, Edge(a, b)),
        (InvalidInput, Edge(a, b, "failed")),  # type: ignore[arg-type]
    ]  # fmt: skip
    for error, edge in wrong:
        with pytest.raises(error):
            world.run(flows.stage_edges, flow.id, [edge], flow.record().revision)
    with pytest.raises(FlowNotFound):
        world.run(flows.stage_edges, "nobody", [], 0)
    with pytest.raises(FlowNotFound):
        world.run(flows.apply_edges, "nobody")
    flow.end("a")
    flow.end("b")
    with pytest.raises(FlowEnded):
        world.run(flows.stage_edges, flow.id, [], flow.record().revision)


def test_planned_edges_close_no_cycle_either(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": ()})
    a, b, c = flow.ids.values()
    revision = each_store.run(flows.stage_edges, flow.id, [Edge(a, b), Edge(b, c)], 1)
    with pytest.raises(FlowCycle):
        each_store.run(flows.stage_edges, flow.id, [Edge(c, a)], revision)


def test_a_quorum_of_more_than_were_planned_is_refused_when_applied(each_store: World) -> None:
    flow = create(each_store, {})
    stage(flow, {"a": (), "b": quorum(2, "a")})
    with pytest.raises(InvalidFlow):
        apply(flow)


def test_a_staged_flow_that_is_cancelled_ends(each_store: World) -> None:
    flow = create(each_store, {})
    stage(flow, {"a": (), "b": ("a",)})
    flow.cancel("flow_only")
    assert set(flow.states().values()) == {"cancelled"}
    assert flow.record().state is FlowState.CANCELLED


def test_more_can_be_staged_while_the_first_part_runs(each_store: World) -> None:
    flow = create(each_store, {})
    stage(flow, {"a": (), "b": ("a",)})
    apply(flow)
    stage(flow, {"c": ("b",), "d": ()})
    flow.end("a")
    assert flow.states() == {"a": "succeeded", "b": "ready", "c": "blocked", "d": "blocked"}
    apply(flow)
    flow.end("b")
    assert [flow.state(name) for name in "cd"] == ["ready", "ready"]
