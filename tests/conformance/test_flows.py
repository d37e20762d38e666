"""Flows: members start when what they wait for has ended as asked, once, and never before."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.clock import SECOND
from holdfast.errors import FlowNotFound
from holdfast.model.flows import FlowFilter, FlowState
from holdfast.model.outcomes import Cancelled, Done, Failed, Retry
from holdfast.storage.ops.flows import dependency_resolution, flows
from holdfast.storage.ops.jobs import actions, explaining
from holdfast.storage.ops.store import verify
from tests.patience import SOON

from .flow_kit import BROKE, all_of, any_of, check, create, drain, quorum
from .world import ERROR, World, spec


def test_a_member_that_waits_for_nothing_can_start_at_once_and_the_others_cannot(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("a", "b")})
    assert flow.states() == {"a": "ready", "b": "blocked", "c": "blocked"}
    assert flow.member("b").reason == "dependencies"
    record = flow.record()
    assert (record.members, record.live, record.state, record.finished_at) == (3, 3, FlowState.RUNNING, None)


def test_a_member_is_released_in_the_commit_of_its_last_upstream(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    flow.end("a")
    assert flow.state("c") == "blocked"
    flow.end("b")
    assert flow.state("c") == "ready"
    assert flow.take("c").attempt == 1


def test_a_flow_ends_with_its_last_member_in_the_same_commit(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    flow.end("a")
    assert flow.record().live == 1
    world.clock.advance(5)
    flow.end("b")
    record = flow.record()
    assert (record.live, record.state, record.finished_at) == (0, FlowState.SUCCEEDED, world.now)


def test_an_upstream_that_fails_makes_its_downstream_impossible_and_that_cascades(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)})
    flow.end("a", BROKE)
    # The direct child in the same commit, the others hop by hop.
    assert flow.states() == {"a": "failed", "b": "skipped", "c": "blocked", "d": "blocked"}
    assert flow.member("b").reason == "impossible"
    assert drain(world) == 3
    assert flow.states() == {"a": "failed", "b": "skipped", "c": "skipped", "d": "skipped"}
    assert flow.record().state is FlowState.FAILED


def test_a_try_that_fails_and_will_be_repeated_tells_nobody(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    flow.end("a", Retry(0, ERROR))
    assert (flow.state("b"), flow.record().live) == ("blocked", 2)
    flow.end("a")
    assert flow.state("b") == "ready"


@pytest.mark.parametrize(
    ("policy", "outcome", "becomes"),
    [
        ("success", Done("1"), "ready"), ("success", BROKE, "skipped"), ("success", Cancelled("asked"), "skipped"),
        ("any", Done("1"), "ready"), ("any", BROKE, "ready"), ("any", Cancelled("asked"), "ready"),
        ("failure", Done("1"), "skipped"), ("failure", BROKE, "ready"), ("failure", Cancelled("asked"), "skipped"),
    ],
)  # fmt: skip
def test_each_edge_says_which_end_of_its_upstream_counts(
    each_store: World, policy: str, outcome: object, becomes: str
) -> None:
    flow = create(each_store, {"a": (), "b": all_of("a", policy=policy)})  # type: ignore[arg-type]
    flow.end("a", outcome)  # type: ignore[arg-type]
    assert flow.state("b") == becomes


def test_a_handler_of_failures_is_skipped_in_a_flow_that_succeeds(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "c": all_of("a", policy="failure")})
    flow.end("a")
    flow.end("b")
    drain(each_store)
    assert (flow.state("c"), flow.record().state) == ("skipped", FlowState.SUCCEEDED)


def test_a_member_that_is_skipped_counts_as_an_end_of_any_kind(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "c": all_of("b", policy="any")})
    flow.end("a", BROKE)
    drain(each_store)
    assert flow.states() == {"a": "failed", "b": "skipped", "c": "ready"}


# -- any of, quorum


def test_any_of_is_released_by_the_first_success_and_only_once(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": (), "d": any_of("a", "b", "c")})
    flow.end("a", BROKE)
    assert flow.state("d") == "blocked"
    flow.end("b")
    assert flow.state("d") == "ready"
    claimed = flow.take("d")
    flow.end("c")
    assert flow.member("d").epoch == claimed.epoch
    assert flow.states() == {"a": "failed", "b": "succeeded", "c": "succeeded", "d": "running"}


def test_any_of_becomes_impossible_with_the_last_failure(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": any_of("a", "b")})
    flow.end("a", BROKE)
    flow.end("b", BROKE)
    assert flow.state("c") == "skipped"


def test_a_quorum_is_released_when_enough_have_succeeded(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": (), "d": quorum(2, "a", "b", "c")})
    flow.end("a")
    flow.end("b", BROKE)
    assert flow.state("d") == "blocked"
    flow.end("c")
    assert flow.state("d") == "ready"


def test_a_quorum_becomes_impossible_when_too_few_are_left(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": (), "d": quorum(2, "a", "b", "c")})
    flow.end("a", BROKE)
    assert flow.state("d") == "blocked"
    flow.end("b", BROKE)
    assert flow.state("d") == "skipped"
    assert flow.state("c") == "ready"


def test_what_is_not_needed_any_more_is_cancelled_where_the_join_says_so(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": (), "d": any_of("a", "b", "c", rest="cancel")})
    running = flow.take("b")
    flow.end("a")
    assert flow.state("d") == "ready"
    drain(world)
    assert (flow.state("c"), flow.member("c").reason) == ("cancelled", "not_needed")
    # One that runs is asked to stop, and a success that comes all the same stands.
    assert flow.member("b").cancel_reason == "not_needed"
    world.finish(flow.owner, running, Cancelled("asked"))
    flow.end("d")
    assert flow.record().state is FlowState.SUCCEEDED


def test_what_another_member_still_needs_is_not_cancelled(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": any_of("a", "b", rest="cancel"), "d": ("b",)})
    flow.end("a")
    drain(each_store)
    assert flow.states() == {"a": "succeeded", "b": "ready", "c": "ready", "d": "blocked"}


def test_what_is_not_needed_runs_on_by_default(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": any_of("a", "b")})
    flow.end("a")
    drain(each_store)
    assert flow.state("b") == "ready"


# -- times and wake-ups


def test_a_delay_of_a_released_member_is_kept(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (("a",), {"delay": 60 * SECOND})})
    flow.end("a")
    assert (flow.state("b"), flow.member("b").due, flow.member("b").reason) == ("ready", 0, "delay")
    each_store.clock.advance(60)
    flow.end("b")


def test_a_release_wakes_the_queue_of_the_child(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",)})
    with closing(each_store.store.wakeups.listen([f"queue:{flow.queue('b')}"])) as listener:
        flow.end("a")
        assert listener.wait(SOON)


def test_a_skipped_child_wakes_those_who_carry_the_cascade_on(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "c": ("b",)})
    with closing(each_store.store.wakeups.listen(["hops"])) as listener:
        flow.end("a", BROKE)
        assert listener.wait(SOON)


# -- callbacks


@pytest.mark.parametrize(("outcome", "called"), [(Done("1"), "on_success"), (BROKE, "on_failure")])
def test_the_end_of_a_flow_enqueues_its_callback_once(world: World, outcome: object, called: str) -> None:
    callbacks = {name: spec(queue=name) for name in ("on_success", "on_failure")}
    flow = create(world, {"a": (), "b": ()}, **callbacks)
    flow.end("a")
    assert world.jobs() == 2
    flow.end("b", outcome)  # type: ignore[arg-type]
    assert world.jobs() == 3
    assert world.take(flow.owner, queues=[called]).id == callbacks[called].id
    drain(world)
    assert world.jobs() == 3


def test_a_callback_waits_for_a_queue_that_takes_no_jobs(each_store: World) -> None:
    world = each_store
    flow = create(world, {"a": ()}, on_success=spec(queue="closed"))
    world.run(actions.set_queue_state, "closed", "draining")
    flow.end("a")
    assert (flow.record().state, world.jobs()) == (FlowState.SUCCEEDED, 1)
    drain(world)
    assert world.jobs() == 1
    world.run(actions.set_queue_state, "closed", "active")
    drain(world)
    drain(world)
    assert world.jobs() == 2
    assert not world.read(dependency_resolution.left).callbacks


# -- reads


def test_counts_graph_and_ends_say_what_has_become_of_a_flow(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "c": quorum(1, "a")})
    flow.end("a", Done('"first"'))
    flow.end("b", Failed("permanent", ERROR))
    assert each_store.read(flows.flow_counts, flow.id) == {"succeeded": 1, "failed": 1, "ready": 1}
    graph = flow.graph()
    assert [(one.name, str(one.state), one.mode, one.needed) for one in graph.members] == [
        ("a", "succeeded", None, None), ("b", "failed", "all", 0), ("c", "ready", "quorum", 1),
    ]  # fmt: skip
    assert [(edge.upstream, edge.met) for edge in graph.edges] == [(flow.ids["a"], True)] * 2
    ends = each_store.read(flows.flow_ends, flow.id)
    assert [(one.name, str(one.state), one.result, one.error) for one in ends] == [
        ("b", "failed", None, ERROR), ("c", "ready", None, None),
    ]  # fmt: skip
    for read in (flows.get_flow, flows.flow_counts, flows.flow_graph, flows.flow_ends):
        with pytest.raises(FlowNotFound):
            each_store.read(read, "nobody")


def test_flows_are_listed_newest_first_in_pages_and_by_what_is_asked(each_store: World) -> None:
    world = each_store
    made = [create(world, {"a": ()}, name=name, tenant="") for name in ("x", "y", "x")]
    made[0].end("a")
    listed = [one.id for one in world.read(flows.list_flows, FlowFilter())]
    assert listed == [flow.id for flow in reversed(made)]
    assert [one.id for one in world.read(flows.list_flows, FlowFilter(limit=1, before=made[2].id))] == [made[1].id]
    done = world.read(flows.list_flows, FlowFilter(state=FlowState.SUCCEEDED))
    assert [one.id for one in done] == [made[0].id]
    assert [one.id for one in world.read(flows.list_flows, FlowFilter(state=FlowState.RUNNING, name="x"))] == [
        made[2].id
    ]
    assert world.read(flows.list_flows, FlowFilter(tenant="acme")) == []


def test_an_explanation_names_those_that_a_member_waits_for(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)})
    flow.end("a")
    (reason,) = each_store.read(explaining.explain, flow.ids["c"]).reasons
    assert (reason.code, reason.text) == ("dependencies", "it is waiting for b (ready)")
    flow.end("b", BROKE)
    (reason,) = each_store.read(explaining.explain, flow.ids["c"]).reasons
    assert reason.code == "skipped"
    assert "b (failed)" in reason.text


def test_verify_finds_flows_and_members_whose_counters_are_wrong(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "c": ("b",)})
    check(each_store)
    each_store.sql("update holdfast_flow set live = 2 where id = :id", id=flow.id)
    each_store.sql("update holdfast_join set awaits = 0 where job_id = :id", id=flow.ids["b"])
    broken = {one.rule: one.broken_by for one in each_store.read(verify, []) if one.broken_by}
    assert broken == {
        "every flow counts its unfinished members": (flow.id,),
        "every waiting member counts what it waits for": (flow.ids["b"],),
        "no member waits for nothing": (flow.ids["b"],),
    }
