"""Running a part of a flow again: what failed, what was skipped for it, a member and all that hangs on it."""

from __future__ import annotations

import pytest

from holdfast.errors import FlowNotFound, IllegalMove
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.audit import AuditFilter
from holdfast.model.flows import FlowState
from holdfast.model.outcomes import Done
from holdfast.rules.lifecycle import MAX_GENERATION
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions, retention, retrying

from .flow_kit import BROKE, Flow, all_of, any_of, check, create, drain, names, quorum
from .world import World, spec


def retry(flow: Flow, **options: object) -> list[str]:
    return names(flow, flow.world.run(flows.retry_flow, flow.id, **options))


def replay(flow: Flow, name: str, **options: object) -> list[str]:
    return names(flow, flow.world.run(flows.retry_member, flow.ids[name], **options))


# -- retry


def test_retry_runs_what_failed_and_what_was_skipped_for_it_and_nothing_else(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",), "other": ()})
    flow.end("other")
    flow.end("a", BROKE)
    drain(world)
    assert flow.record().state is FlowState.FAILED
    assert retry(flow) == ["a", "b", "c"]
    assert flow.states() == {"a": "ready", "b": "blocked", "c": "blocked", "other": "succeeded"}
    record = flow.record()
    assert (record.live, record.state, record.finished_at) == (3, FlowState.RUNNING, None)
    for name in "abc":
        flow.end(name)
    assert flow.record().state is FlowState.SUCCEEDED
    check(world)


def test_a_retried_part_may_fail_again_and_cascade_again(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",)})
    for _ in range(2):
        flow.end("a", BROKE)
        drain(world)
        assert flow.states() == {"a": "failed", "b": "skipped", "c": "skipped"}
        assert flow.record().state is FlowState.FAILED
        assert retry(flow) == ["a", "b", "c"]
    check(world)


def test_a_member_that_failed_after_its_upstreams_succeeded_can_start_at_once(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",)})
    flow.end("a")
    flow.end("b", BROKE)
    drain(world)
    assert retry(flow) == ["b", "c"]
    assert flow.states() == {"a": "succeeded", "b": "ready", "c": "blocked"}


def test_what_was_rightly_skipped_is_not_retried(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "mend": all_of("a", policy="failure"), "c": ("b",)})
    flow.end("a")
    flow.end("b", BROKE)
    drain(each_store)
    assert retry(flow) == ["b", "c"]
    assert flow.state("mend") == "skipped"


def test_what_was_not_needed_is_not_retried(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": any_of("a", "b", rest="cancel"), "d": ("c",)})
    flow.end("a")
    drain(each_store)
    flow.end("c", BROKE)
    drain(each_store)
    assert retry(flow) == ["c", "d"]
    assert flow.states() == {"a": "succeeded", "b": "cancelled", "c": "ready", "d": "blocked"}


def test_a_running_flow_can_be_retried(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "runs": (), "end": ("b", "runs")})
    flow.end("a", BROKE)
    drain(world)
    flow.take("runs")
    assert flow.record().live == 1
    assert retry(flow) == ["a", "b", "end"]
    assert flow.record().live == 4
    check(world)


def test_a_cancelled_flow_goes_on_when_it_is_retried(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    claimed = flow.take("a")
    flow.cancel("cancel_all")
    with pytest.raises(IllegalMove):
        retry(flow)
    with pytest.raises(IllegalMove):
        world.run(actions.retry, flow.ids["b"])
    world.finish(flow.owner, claimed, BROKE)
    assert flow.record().state is FlowState.CANCELLED
    assert retry(flow) == ["a", "b"]
    assert (flow.record().cancel_policy, flow.record().state) == (None, FlowState.RUNNING)
    flow.end("a")
    flow.end("b")
    assert flow.record().state is FlowState.SUCCEEDED


def test_each_end_of_a_flow_calls_back(each_store: World) -> None:
    flow = create(each_store, {"a": ()}, on_success=spec(queue="good"), on_failure=spec(queue="bad"))
    for _ in range(2):
        flow.end("a", BROKE)
        retry(flow)
    flow.end("a")
    assert len(each_store.claim(flow.owner, queues=["bad"])) == 2
    assert len(each_store.claim(flow.owner, queues=["good"])) == 1


def test_members_that_were_replayed_too_often_stay_as_they_are(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": ("a",)})
    flow.end("a", BROKE)
    flow.end("b", BROKE)
    drain(each_store)
    each_store.sql("update holdfast_ended set generation = :n where id = :id", n=MAX_GENERATION, id=flow.ids["a"])
    retried = retry(flow)
    drain(each_store)
    assert "b" in retried
    assert flow.states() == {"a": "failed", "b": "ready", "c": "skipped"}
    flow.end("b")
    assert flow.record().state is FlowState.FAILED


def test_a_retry_is_recorded_and_of_nothing_it_changes_nothing(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    flow.end("a")
    before = flow.record()
    assert retry(flow, actor="ann") == []
    assert flow.record() == before
    (entry,) = each_store.read(list_audit, AuditFilter(target_kind="flow", target=flow.id))
    assert (entry.actor, entry.action) == ("ann", "flow.retry")
    with pytest.raises(FlowNotFound):
        each_store.run(flows.retry_flow, "nobody")


def test_a_member_of_a_flow_that_is_being_cancelled_is_not_retried_in_bulk_either(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ()})
    flow.take("a")
    flow.cancel("cancel_all")
    order, b = Order(Action.RETRY), flow.ids["b"]
    assert each_store.run(actions.apply, [b], order, actor="me", reason="", target=b) == {b: ActionResult.NOT_ALLOWED}


def test_what_a_pruned_upstream_came_to_still_counts(each_store: World) -> None:
    world = each_store
    flow = create(world, {"good": (), "bad": (), "end": quorum(2, "good", "bad")})
    flow.end("good")
    flow.end("bad", BROKE)
    drain(world)
    world.clock.advance(1)
    assert world.run(retention.prune_jobs, [flow.ids["good"], flow.ids["bad"]], 0) == 2
    assert world.run(actions.retry, flow.ids["end"]) is True
    drain(world)
    # There is nobody left to wait for.
    assert flow.state("end") == "skipped"
    check(world)


# -- replay of a member


def test_a_skipped_member_that_is_replayed_waits_again_with_its_successes_kept(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    flow.end("a")
    flow.end("b", BROKE)
    assert flow.state("c") == "skipped"
    assert world.run(actions.retry, flow.ids["c"]) is True
    assert (flow.state("c"), flow.member("c").reason) == ("blocked", "dependencies")
    assert flow.record().live == 1
    assert world.run(actions.retry, flow.ids["b"]) is True
    assert (flow.state("b"), flow.record().live) == ("ready", 2)
    flow.end("b")
    assert flow.state("c") == "ready"
    flow.end("c")
    assert flow.record().state is FlowState.SUCCEEDED
    check(world)


def test_a_skipped_member_whose_upstream_has_been_mended_can_start_at_once(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    flow.end("a", BROKE)
    world.run(actions.retry, flow.ids["a"])
    flow.end("a")
    assert flow.state("b") == "skipped"
    world.run(actions.retry, flow.ids["b"])
    assert flow.state("b") == "ready"


def test_a_member_that_waits_is_told_anew_when_an_upstream_of_it_is_replayed(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    flow.end("a")
    world.run(actions.retry, flow.ids["a"])
    flow.end("b")
    assert flow.state("c") == "blocked"
    flow.end("a")
    assert flow.state("c") == "ready"
    check(world)


def test_replaying_from_a_member_runs_all_that_hangs_on_it(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",), "beside": ("a",)})
    for name in flow.ids:
        flow.end(name, Done(f'"{name}"'))
    assert replay(flow, "b") == ["b", "c"]
    assert flow.states() == {"a": "succeeded", "b": "ready", "c": "blocked", "beside": "succeeded"}
    assert (flow.record().live, flow.record().state) == (2, FlowState.RUNNING)
    assert flow.member("b").result is None
    flow.end("b")
    flow.end("c")
    assert flow.record().state is FlowState.SUCCEEDED


def test_replaying_a_member_alone_leaves_the_others(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    flow.end("a")
    flow.end("b")
    assert replay(flow, "a", downstream=False) == ["a"]
    flow.end("a", BROKE)
    assert flow.states() == {"a": "failed", "b": "succeeded"}
    assert flow.record().state is FlowState.FAILED


def test_what_hangs_on_a_replayed_member_and_on_a_failure_besides_is_skipped_again(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": ("a", "b")})
    flow.end("a", BROKE)
    flow.end("b", BROKE)
    drain(each_store)
    replay(flow, "a")
    flow.end("a")
    drain(each_store)
    assert flow.states() == {"a": "succeeded", "b": "failed", "c": "skipped"}
    assert flow.record().finished_at is not None


def test_only_finished_members_of_flows_are_replayed_as_such(each_store: World) -> None:
    flow, alone = create(each_store, {"a": ()}), each_store.add()
    for job_id in (flow.ids["a"], alone):
        with pytest.raises(IllegalMove):
            each_store.run(flows.retry_member, job_id)


def test_a_bulk_retry_of_members_puts_them_back_where_they_belong(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",)})
    flow.end("a", BROKE)
    drain(each_store)
    ids = list(flow.ids.values())
    fates = each_store.run(actions.apply, ids, Order(Action.RETRY), actor="me", reason="", target="these")
    assert set(fates.values()) == {ActionResult.RETRIED}
    assert flow.states() == {"a": "ready", "b": "blocked"}
    assert flow.record().live == 2
    flow.end("a")
    flow.end("b")
    check(each_store)


def test_a_retry_that_is_not_resolved_at_once_reopens_the_flow_soon(each_store: World) -> None:
    world, flow = each_store, create(each_store, {"a": (), "b": ("a",)})
    flow.end("a", BROKE)
    drain(world)
    world.run(retrying.revive, {flow.ids["b"]: None})
    check(world)
    drain(world)
    assert (flow.state("b"), flow.record().live) == ("blocked", 1)
    # Replayed and ended again before anybody has looked: the flow's count stays.
    world.run(retrying.revive, {flow.ids["a"]: None})
    flow.end("a")
    check(world)
    drain(world)
    assert (flow.state("b"), flow.record().live) == ("ready", 1)
    flow.end("b")
    assert flow.record().live == 0
