"""What a graph may be, and how it grows: each wrong one has an error of its own, and nothing is written."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    Conflict,
    DuplicateEdge,
    DuplicateJob,
    DuplicateMember,
    FlowCycle,
    FlowEnded,
    FlowNotFound,
    FlowTooLarge,
    ForeignMember,
    IdTaken,
    IllegalMove,
    InvalidFlow,
    LeaseLost,
    SelfEdge,
)
from holdfast.ids import ids
from holdfast.model.flows import Edge, FlowSpec, Holder, Member
from holdfast.model.outcomes import Done
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions

from .flow_kit import BROKE, all_of, any_of, check, create, drain, planned, quorum
from .world import World, spec


def test_a_cycle_however_long_is_refused_and_nothing_is_written(world: World) -> None:
    chain = {f"m{i}": (f"m{i - 1}",) for i in range(1, 60)}
    with pytest.raises(FlowCycle, match="circle of 60"):
        create(world, {"m0": ("m59",), **chain})
    assert (world.jobs(), world.sql("select * from holdfast_flow")) == (0, [])


def test_each_wrong_graph_has_an_error_of_its_own(each_store: World) -> None:
    world, flow = each_store, create(each_store, {"a": ()})
    a, stranger = flow.ids["a"], world.add()
    member = planned(flow, {"b": ()})[0][0]
    b = member.spec.id
    wrong = [
        (SelfEdge, [Edge(b, b)]),
        (DuplicateEdge, [Edge(a, b), Edge(a, b)]),
        (ForeignMember, [Edge(stranger, b)]),
        (ForeignMember, [Edge(a, "nobody")]),
        (FlowCycle, [Edge(a, b), Edge(b, a)]),
    ]
    for error, edges in wrong:
        with pytest.raises(error):
            world.run(flows.add_members, flow.id, [member], edges)
    with pytest.raises(FlowNotFound):
        world.run(flows.add_members, "nobody", [member])
    assert (world.jobs(), flow.record().members) == (2, 1)


def test_a_member_of_another_flow_or_tenant_is_foreign(each_store: World) -> None:
    world, flow, other = each_store, create(each_store, {"a": ()}), create(each_store, {"a": ()})
    members, _ = planned(flow, {"b": ()})
    with pytest.raises(ForeignMember):
        world.run(flows.add_members, flow.id, members, [Edge(other.ids["a"], flow.ids["b"])])
    with pytest.raises(ForeignMember):
        flow.add({"c": ((), {"tenant": "acme"})})
    with pytest.raises(ForeignMember):
        world.run(flows.add_members, other.id, planned(flow, {"a": ()})[0])


def test_names_and_jobs_are_unique_in_a_flow(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    with pytest.raises(DuplicateMember):
        each_store.run(flows.add_members, flow.id, [Member(spec=spec(), name="a")])
    twice = Member(spec=spec(), name="b")
    with pytest.raises(DuplicateMember):
        each_store.run(flows.add_members, flow.id, [twice, twice])
    with pytest.raises(DuplicateMember):
        each_store.run(flows.add_members, flow.id, [Member(spec=spec(), name="c"), Member(spec=spec(), name="c")])
    with pytest.raises(IdTaken, match="exists and is not a member of this flow; give the member another id"):
        each_store.run(flows.add_members, flow.id, [Member(spec=spec(id=each_store.add()), name="d")])


def test_a_member_whose_dedupe_key_is_held_by_another_job_is_refused(each_store: World) -> None:
    flow, holder = create(each_store, {"a": ()}), each_store.add(key="k")
    with pytest.raises(DuplicateJob) as caught:
        flow.add({"b": ((), {"key": "k"})})
    assert caught.value.job_id == holder
    assert flow.record().members == 1


def test_a_quorum_of_more_than_there_are_is_refused(each_store: World) -> None:
    with pytest.raises(InvalidFlow):
        create(each_store, {"a": (), "b": quorum(2, "a")})


def test_a_callback_with_a_dedupe_key_is_refused(each_store: World) -> None:
    with pytest.raises(InvalidFlow):
        create(each_store, {"a": ()}, on_success=spec(key="k"))


@pytest.mark.timeout(300)
def test_a_flow_has_at_most_ten_thousand_members(each_store: World) -> None:
    members = tuple(Member(spec=spec(id=id), name=id) for id in ids.many(10_001))
    with pytest.raises(FlowTooLarge):
        each_store.run(flows.create_flow, FlowSpec(id="large", name="large", members=members))
    each_store.run(flows.create_flow, FlowSpec(id="large", name="large", members=members[:-1]))
    with pytest.raises(FlowTooLarge):
        each_store.run(flows.add_members, "large", members[-1:])
    assert each_store.read(flows.get_flow, "large").members == 10_000


def test_a_chain_has_at_most_a_thousand_members_also_where_it_grows(each_store: World) -> None:
    chain = {f"m{i:04}": (f"m{i - 1:04}",) if i else () for i in range(1_000)}
    with pytest.raises(FlowTooLarge):
        create(each_store, {**chain, "one more": ("m0999",)})
    flow = create(each_store, chain)
    with pytest.raises(FlowTooLarge):
        flow.add({"one more": ("m0999",)})
    flow.add({"beside": ("m0998",)})


# -- extending


def test_a_running_member_extends_its_own_flow(world: World) -> None:
    flow = create(world, {"a": (), "end": ("a",)})
    claimed = flow.take("a")
    by = Holder(flow.owner, claimed.id, claimed.epoch)
    flow.add({"b": (), "c": ("b",)}, by=by)
    members, edges = planned(flow, {})
    world.run(flows.add_members, flow.id, members, [*edges, Edge(flow.ids["c"], flow.ids["end"])], by=by)
    world.finish(flow.owner, claimed, Done("1"))
    assert flow.states() == {"a": "succeeded", "end": "blocked", "b": "ready", "c": "blocked"}
    flow.end("b")
    flow.end("c")
    assert flow.state("end") == "ready"
    check(world)


def test_a_handler_that_runs_again_adds_nothing_twice(world: World) -> None:
    flow = create(world, {"a": ()})
    claimed = flow.take("a")
    by = Holder(flow.owner, claimed.id, claimed.epoch)
    members, edges = planned(flow, {"b": (), "c": ("b", "a")})
    for _ in range(2):
        world.run(flows.add_members, flow.id, members, edges, by=by)
    record = flow.record()
    assert (record.members, record.live, world.jobs()) == (3, 3, 3)
    assert len(flow.graph().edges) == 2


def test_a_run_that_has_lost_its_job_extends_nothing(world: World) -> None:
    flow = create(world, {"a": (), "b": ()})
    claimed = flow.take("a")
    world.run(actions.cancel, claimed.id, force=True)
    with pytest.raises(LeaseLost):
        flow.add({"c": ()}, by=Holder(flow.owner, claimed.id, claimed.epoch))
    assert (flow.record().members, world.jobs()) == (2, 2)


def test_a_job_extends_no_flow_but_its_own(each_store: World) -> None:
    flow, other = create(each_store, {"a": ()}), create(each_store, {"a": ()})
    claimed = other.take("a")
    with pytest.raises(ForeignMember):
        flow.add({"b": ()}, by=Holder(other.owner, claimed.id, claimed.epoch))


def test_nothing_is_added_to_a_flow_that_has_ended(world: World) -> None:
    flow = create(world, {"a": ()})
    flow.end("a")
    with pytest.raises(FlowEnded):
        flow.add({"b": ()})
    assert world.jobs() == 1


def test_upstreams_that_have_ended_before_the_edge_is_made_are_counted(world: World) -> None:
    flow = create(world, {"good": (), "bad": (), "open": ()})
    flow.end("good")
    flow.end("bad", BROKE)
    flow.add({
        "after good": ("good",), "after bad": ("bad",), "after both": any_of("good", "bad"),
        "after all": ("good", "open"), "mend": all_of("bad", policy="failure"),
    })  # fmt: skip
    assert flow.state("after good") == "ready"
    assert flow.state("after bad") == "skipped"
    assert flow.state("after both") == "ready"
    assert flow.state("after all") == "blocked"
    assert flow.state("mend") == "ready"
    flow.end("open")
    assert flow.state("after all") == "ready"
    drain(world)
    check(world)


def test_a_member_that_has_started_cannot_be_made_to_wait(world: World) -> None:
    flow = create(world, {"a": (), "b": ()})
    flow.take("a")
    members, _ = planned(flow, {"c": ()})
    with pytest.raises(IllegalMove):
        world.run(flows.add_members, flow.id, members, [Edge(flow.ids["c"], flow.ids["a"])])
    world.run(flows.add_members, flow.id, members, [Edge(flow.ids["c"], flow.ids["b"])])
    assert flow.state("b") == "blocked"
    flow.end("c")
    assert flow.state("b") == "ready"


def test_creating_a_flow_again_returns_the_one_that_is_there(world: World) -> None:
    members = (Member(spec=spec(id="one"), name="a"),)
    first = world.run(flows.create_flow, FlowSpec(id="f", name="nightly", members=members))
    assert world.run(flows.create_flow, FlowSpec(id="f", name="nightly", members=members)) == first
    assert world.jobs() == 1
    with pytest.raises(Conflict):
        world.run(flows.create_flow, FlowSpec(id="f", name="another"))
