"""Several who end, extend and cancel at once: nothing is lost between two who do not see each other."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast.model.flows import Edge, FlowState
from holdfast.model.outcomes import Done, Finish
from holdfast.storage.ops.flows import edges, flows
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.port import Op

from .flow_kit import BROKE, Flow, check, create, drain, planned
from .racing import all_at_once, aside, await_blocked, open_transaction
from .world import World

Worlds = tuple[World, World]


def of(world: World, flow: Flow) -> Flow:
    """The same flow through another store."""
    return Flow(world, flow.id, flow.ids, flow.owner)


def test_two_upstreams_that_end_at_the_same_moment_release_their_child_once(two_worlds: Worlds) -> None:
    first, second = two_worlds
    for _ in range(10):
        flow = create(first, {"a": (), "b": (), "c": ("a", "b")})
        a, b = flow.take("a"), flow.take("b")
        all_at_once([
            partial(first.finish, flow.owner, a, Done("1")),
            partial(second.finish, flow.owner, b, Done("1")),
        ])  # fmt: skip
        assert flow.state("c") == "ready"
        flow.end("c")
        assert flow.record().state is FlowState.SUCCEEDED


def test_many_ends_at_once_are_all_counted(two_worlds: Worlds) -> None:
    first, second = two_worlds
    plan = {f"m{i}": () for i in range(16)} | {"end": tuple(f"m{i}" for i in range(16))}
    flow = create(first, plan)
    claimed = [flow.take(f"m{i}") for i in range(16)]
    calls = [partial((first, second)[i % 2].finish, flow.owner, job, Done("1")) for i, job in enumerate(claimed)]
    all_at_once(calls)
    assert (flow.state("end"), flow.record().live) == ("ready", 1)
    check(first)


def test_an_upstream_that_ends_while_the_edge_is_made_is_counted(on_postgres: World) -> None:
    """Whoever comes second waits for the first, and finds what it did."""
    world = on_postgres
    for outcome, becomes in ((Done("1"), "ready"), (BROKE, "skipped")):
        flow = create(world, {"a": (), "stays": ()})
        claimed = flow.take("a")
        members, arrows = planned(flow, {"b": ("a",)})
        with aside() as start:
            with open_transaction(world) as within:
                within(Op(lambda tx, f=flow, m=members, e=arrows: flows.add_members(tx, f.id, m, e)))
                late = start(partial(world.finish, flow.owner, claimed, outcome))
                await_blocked(world)
            late.result(10)
        assert flow.state("b") == becomes


def test_an_edge_that_is_made_while_its_upstream_ends_is_counted(on_postgres: World) -> None:
    world = on_postgres
    flow = create(world, {"a": (), "stays": ()})
    claimed = flow.take("a")
    members, arrows = planned(flow, {"b": ("a",)})
    done = [Finish(claimed.id, claimed.epoch, Done("1"))]
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: finishing.finish(tx, flow.owner, done)))
            late = start(partial(world.run, flows.add_members, flow.id, members, arrows))
            await_blocked(world)
        late.result(10)
    assert flow.state("b") == "ready"


def test_a_job_that_ends_while_another_begins_to_wait_for_it_is_noticed(on_postgres: World) -> None:
    world = on_postgres
    waiter, job_id = world.add(), world.add(queue="other")
    with aside() as start:
        with open_transaction(world) as within:
            assert within(Op(lambda tx: edges.await_jobs(tx, waiter, [job_id]))) is False
            late = start(partial(world.run, actions.cancel, job_id))
            await_blocked(world)
        late.result(10)
    # The waiter is not suspended here; that it was told is seen by its counter.
    assert world.sql("select awaits from holdfast_join where job_id = :id", id=waiter) == [(0,)]


def test_nothing_is_added_to_a_flow_that_ends_at_the_same_moment(two_worlds: Worlds) -> None:
    first, second = two_worlds
    for _ in range(12):
        flow = create(first, {"a": ()})
        claimed = flow.take("a")
        members, _ = planned(flow, {"b": ()})

        def add(flow: Flow = flow, members: list[object] = members) -> bool:
            try:
                second.run(flows.add_members, flow.id, members)
            except flows.FlowEnded:
                return False
            return True

        def end(flow: Flow = flow, claimed: object = claimed) -> bool:
            return bool(first.finish(flow.owner, claimed, Done("1")))  # type: ignore[arg-type]

        added, _ = all_at_once([add, end])
        record = flow.record()
        assert (record.members, record.live) == ((2, 1) if added else (1, 0))
        assert (record.finished_at is None) == added
    check(first)


@pytest.mark.parametrize("policy", ["flow_only", "cancel_pending", "cancel_all"])
def test_a_cancel_and_an_end_at_the_same_moment_leave_nothing_in_limbo(two_worlds: Worlds, policy: str) -> None:
    first, second = two_worlds
    for _ in range(8):
        flow = create(first, {"a": (), "b": ("a",), "c": ("b",)})
        claimed = flow.take("a")
        all_at_once([
            partial(first.finish, flow.owner, claimed, Done("1")),
            partial(second.run, flows.cancel_flow, flow.id, policy),
        ])  # fmt: skip
        drain(first)
        while flow.can_start("b") or flow.can_start("c"):
            flow.end("b" if flow.can_start("b") else "c")
        drain(first)
        assert flow.record().state is FlowState.CANCELLED, flow.states()
    check(first)


def test_two_who_cancel_a_flow_agree_on_what_was_done(two_worlds: Worlds) -> None:
    first, second = two_worlds
    for _ in range(8):
        flow = create(first, {"a": (), "b": ("a",)})
        flow.take("a")
        answers = all_at_once([
            partial(first.run, flows.cancel_flow, flow.id, "flow_only"),
            partial(second.run, flows.cancel_flow, flow.id, "cancel_all"),
        ])  # fmt: skip
        assert {one.again for one in answers} == {False, True}
        assert len({one.policy for one in answers}) == 1


def test_two_who_carry_a_cascade_on_count_every_end_once(two_worlds: Worlds) -> None:
    first, second = two_worlds
    plan: dict[str, object] = {"a": ()}
    for i in range(40):
        plan |= {f"b{i}": ("a",), f"c{i}": (f"b{i}",), f"d{i}": (f"c{i}", f"b{(i + 1) % 40}")}
    flow = create(first, plan)
    flow.end("a", BROKE)
    all_at_once([partial(drain, first), partial(drain, second), partial(drain, first), partial(drain, second)])
    drain(first)
    assert flow.record().live == 0
    assert set(flow.states().values()) == {"failed", "skipped"}


def test_edges_staged_by_two_at_once_are_taken_from_one(two_worlds: Worlds) -> None:
    first, second = two_worlds
    flow = create(first, {"a": (), "b": (), "c": ()})
    ids = flow.ids

    def stage(world: World, edge: Edge) -> str:
        try:
            world.run(flows.stage_edges, flow.id, [edge], 1)
        except flows.StaleRevision:
            return "stale"
        return "staged"

    answers = all_at_once([
        partial(stage, first, Edge(ids["a"], ids["b"])), partial(stage, second, Edge(ids["b"], ids["a"])),
    ])  # fmt: skip
    assert sorted(answers) == ["staged", "stale"]
    assert len(flow.graph().edges) == 1
