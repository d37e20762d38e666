"""Changing the join of a member that still waits: how many of its upstreams it needs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.errors import IllegalMove, InvalidFlow, NotFound
from holdfast.ids import ids
from holdfast.model.audit import AuditFilter
from holdfast.model.flows import FlowSpec, FlowState, Join, JoinChange, Member
from holdfast.model.outcomes import Done, Finish
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.port import Op
from holdfast.values.references import Reference, Use, encode_inputs

from .flow_kit import BROKE, OK, Flow, any_of, check, create, drain, quorum
from .racing import all_at_once, aside, await_blocked, open_transaction
from .world import World, spec

Worlds = tuple[World, World]
TEN = tuple(f"m{i}" for i in range(10))
ANY = Join("any", 1)


def ten(world: World, after: Any = TEN, **more: Any) -> Flow:
    """A member that waits for ten."""
    return create(world, dict.fromkeys(TEN, ()) | {"end": after} | more)


def set_join(flow: Flow, join: Join, name: str = "end", **options: Any) -> JoinChange:
    return flow.world.run(flows.set_join, flow.ids[name], join, **options)


def counters(flow: Flow, name: str = "end") -> Any:
    (row,) = flow.world.sql("select awaits, spare from holdfast_join where job_id = :id", id=flow.ids[name])
    return tuple(row)


def test_a_quorum_of_seven_instead_of_all_ten_starts_with_the_seventh(world: World) -> None:
    flow = ten(world)
    for name in TEN[:3]:
        flow.end(name)
    done = set_join(flow, Join("quorum", 7))
    assert (done.job_id, done.needs, done.needed, done.upstreams) == (flow.ids["end"], "quorum", 7, 10)
    assert (done.flow_id, done.state, done.changed) == (flow.id, flow.member("end").state, True)
    assert (flow.state("end"), counters(flow)) == ("blocked", (4, 3))
    for name in TEN[3:6]:
        flow.end(name)
    assert flow.state("end") == "blocked"
    flow.end("m6")
    assert flow.state("end") == "ready"
    check(world)


def test_a_failure_that_the_new_join_forgives_does_not_skip_the_member(world: World) -> None:
    flow = ten(world)
    set_join(flow, Join("quorum", 7))
    for name in TEN[:3]:
        flow.end(name, BROKE)
    assert flow.state("end") == "blocked"
    flow.end("m3", BROKE)
    drain(world)
    assert flow.state("end") == "skipped"
    check(world)


def test_a_join_that_is_met_by_the_new_rule_fires_in_the_same_transaction(world: World) -> None:
    flow = ten(world)
    for name in TEN[:7]:
        flow.end(name)
    assert str(set_join(flow, Join("quorum", 7)).state) == "ready"
    assert flow.can_start("end")
    flow.end("end")
    check(world)


def test_any_of_them_is_enough_afterwards(world: World) -> None:
    flow = ten(world)
    flow.end("m4")
    assert str(set_join(flow, ANY).state) == "ready"
    check(world)


def test_upstreams_that_the_new_join_does_not_need_are_cancelled_where_it_says_so(world: World) -> None:
    flow = ten(world)
    flow.end("m0")
    set_join(flow, Join("any", 1, "cancel"))
    drain(world)
    assert {flow.state(name) for name in TEN[1:]} == {"cancelled"}
    flow.end("end")
    assert flow.record().state is FlowState.SUCCEEDED
    check(world)


def test_a_join_that_can_no_longer_be_met_skips_the_member_and_all_behind_it(world: World) -> None:
    flow = ten(world, quorum(2, *TEN), behind=("end",))
    for name in TEN[:3]:
        flow.end(name, BROKE)
    assert flow.state("end") == "blocked"
    assert str(set_join(flow, Join("quorum", 8)).state) == "skipped"
    drain(world)
    assert (flow.member("end").reason, flow.state("behind")) == ("impossible", "skipped")
    check(world)


def test_all_of_them_are_needed_again(world: World) -> None:
    flow = ten(world, any_of(*TEN, rest="cancel"))
    set_join(flow, Join())
    flow.end("m0")
    assert (flow.state("end"), counters(flow)) == ("blocked", (9, 0))
    drain(world)
    assert flow.state("m1") == "ready"
    check(world)


def test_a_join_that_has_fired_is_not_changed(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a",), "d": ("b",)})
    flow.end("a")
    for after in (lambda: None, lambda: flow.take("c")):
        after()
        with pytest.raises(IllegalMove, match="its join has fired"):
            set_join(flow, ANY, "c")
    flow.end("b", BROKE)
    drain(world)
    with pytest.raises(IllegalMove, match="its join has fired"):
        set_join(flow, ANY, "d")
    world.run(actions.cancel, flow.ids["c"])
    assert [one.mode for one in flow.graph().members] == [None, None, "all", "all"]


@pytest.mark.parametrize("needed", [11, 0, -1])
def test_a_quorum_that_cannot_be_is_refused(world: World, needed: int) -> None:
    flow = ten(world)
    with pytest.raises(InvalidFlow, match="ask for 1 to 10"):
        set_join(flow, Join("quorum", needed))
    assert counters(flow) == (10, 0)


def test_what_has_no_join_is_refused(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    with pytest.raises(IllegalMove, match="waits for no other member"):
        set_join(flow, ANY, "a")
    with pytest.raises(IllegalMove, match="not a member of a flow"):
        world.run(flows.set_join, world.add(), ANY)
    with pytest.raises(NotFound):
        world.run(flows.set_join, "nobody", ANY)


def test_a_member_of_a_flow_that_is_not_applied_stays_where_it_is(world: World) -> None:
    flow = create(world, {"a": ()})
    flow.add({"b": ()}, staged=True)
    with pytest.raises(IllegalMove, match="apply the flow first"):
        set_join(flow, ANY, "b")
    assert flow.state("b") == "blocked"


def test_a_member_that_cannot_start_without_a_result_needs_all(world: World) -> None:
    flow = Flow(world, ids.new(), {name: ids.new() for name in "abc"}, world.worker(queues=["default"]))
    _store_with_inputs(flow, default=None)
    with pytest.raises(InvalidFlow, match=r"output_or\(default\)"):
        set_join(flow, ANY, "c")
    flow = Flow(world, ids.new(), {name: ids.new() for name in "abc"}, flow.owner)
    _store_with_inputs(flow, default="null")
    assert set_join(flow, ANY, "c").changed


def test_the_same_join_again_changes_nothing_and_is_not_recorded(world: World) -> None:
    flow = ten(world, any_of(*TEN))
    assert set_join(flow, ANY).changed is False
    assert set_join(flow, Join("quorum", 2)).changed is True
    assert set_join(flow, Join("quorum", 2)).changed is False
    assert len(world.read(list_audit, AuditFilter())) == 1


def test_a_change_is_on_record_with_its_actor_and_told_in_the_log(world: World) -> None:
    flow = ten(world)
    set_join(flow, Join("quorum", 7), actor="ann", reason="three are down")
    (entry,) = world.read(list_audit, AuditFilter())
    assert (entry.actor, entry.action, entry.target) == ("ann", "flow.set_join", flow.id)
    assert (entry.before["needs"], entry.after["needed"]) == ("all", 7)
    told = [event for event in world.events() if event.kind == "operator.flow.set_join"]
    assert [event.detail for event in told] == [{"actor": "ann", "target": flow.id}]


def test_a_member_that_waits_again_after_a_retry_may_get_another_join(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    flow.end("a")
    flow.end("b", BROKE)
    drain(world)
    world.run(flows.retry_flow, flow.id)
    assert str(set_join(flow, ANY, "c").state) == "ready"
    check(world)


# -- while upstreams end


def test_an_upstream_that_ends_while_the_join_is_changed_is_counted_by_the_new_one(on_postgres: World) -> None:
    """The change comes first and is not committed: the end waits for it."""
    for join, outcome, becomes in ((Join("quorum", 2), OK, "ready"), (Join("quorum", 3), BROKE, "skipped")):
        flow = create(on_postgres, {"a": (), "b": (), "c": (), "d": quorum(2, "a", "b", "c") if outcome is BROKE else
                                    ("a", "b", "c")})  # fmt: skip
        flow.end("a")
        claimed = flow.take("b")
        with aside() as start:
            with open_transaction(on_postgres) as within:
                within(Op(lambda tx, f=flow, j=join: flows.set_join(tx, f.ids["d"], j)))
                late = start(partial(on_postgres.finish, flow.owner, claimed, outcome))
                await_blocked(on_postgres)
            late.result(10)
        assert flow.state("d") == becomes
        check(on_postgres)


def test_a_change_that_comes_while_an_upstream_ends_counts_that_end(on_postgres: World) -> None:
    """The end comes first and is not committed: the change waits for it."""
    for join, outcome, becomes in ((Join("quorum", 2), OK, "ready"), (Join("quorum", 3), BROKE, "skipped")):
        flow = create(on_postgres, {"a": (), "b": (), "c": (), "d": quorum(2, "a", "b", "c") if outcome is BROKE else
                                    ("a", "b", "c")})  # fmt: skip
        flow.end("a")
        claimed = flow.take("b")
        done = [Finish(claimed.id, claimed.epoch, outcome)]
        with aside() as start:
            with open_transaction(on_postgres) as within:
                within(Op(lambda tx, f=flow, d=done: finishing.finish(tx, f.owner, d)))
                late = start(partial(set_join, flow, join, "d"))
                await_blocked(on_postgres)
            assert str(late.result(10).state) == becomes
        assert flow.state("d") == becomes
        check(on_postgres)


def test_a_change_that_comes_while_the_join_fires_is_refused(on_postgres: World) -> None:
    flow = create(on_postgres, {"a": (), "b": ("a",)})
    claimed = flow.take("a")
    done = [Finish(claimed.id, claimed.epoch, Done("1"))]
    with aside() as start:
        with open_transaction(on_postgres) as within:
            within(Op(lambda tx: finishing.finish(tx, flow.owner, done)))
            late = start(partial(set_join, flow, ANY, "b"))
            await_blocked(on_postgres)
        with pytest.raises(IllegalMove, match="its join has fired"):
            late.result(10)
    assert flow.state("b") == "ready"


def test_changes_and_ends_at_the_same_moment_leave_the_counters_right(two_worlds: Worlds) -> None:
    first, second = two_worlds
    for needed in range(1, 9):
        plan = {f"m{i}": () for i in range(8)}
        flow = create(first, plan | {"end": tuple(plan)})
        claimed = [flow.take(f"m{i}") for i in range(8)]
        outcomes = [BROKE if i < 8 - needed else OK for i in range(8)]
        both = list(zip(claimed, outcomes, strict=True))
        ends = [partial(second.finish, flow.owner, job, how) for job, how in both[4:]]

        def change(flow: Flow = flow, needed: int = needed) -> object:
            try:
                return set_join(flow, Join("quorum", needed))
            except IllegalMove as fired:
                return fired

        changed, *_ = all_at_once([change, *ends])
        for job, how in both[:4]:
            first.finish(flow.owner, job, how)
        drain(first)
        met = isinstance(changed, JoinChange) or needed == 8
        assert flow.state("end") == ("ready" if met else "skipped")
        check(first)


def _store_with_inputs(flow: Flow, default: str | None) -> None:
    """Two upstreams and a member that takes the result of the first."""
    edges = [flows.Edge(flow.ids[name], flow.ids["c"]) for name in "ab"]
    use = Use((0,), Reference(_Source(flow.ids["a"])))
    inputs = encode_inputs([use], [default])
    members = [
        Member(spec=spec(id=flow.ids[name], queue=flow.queue(name)), name=name, inputs=inputs if name == "c" else None)
        for name in "abc"
    ]
    whole = FlowSpec(id=flow.id, name="fed", members=tuple(members), edges=tuple(edges))
    flow.world.run(flows.create_flow, whole)


class _Source:
    """A job whose result is an argument of another."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = "a"
