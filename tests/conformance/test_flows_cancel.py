"""Cancelling a flow: three policies, the least destructive where in doubt, once, whatever breaks in between."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast import App
from holdfast.errors import FlowEnded, FlowNotFound
from holdfast.model.actions import Action, Order
from holdfast.model.audit import AuditFilter
from holdfast.model.flows import CancelPolicy, CancelRecord, FlowSpec, FlowState
from holdfast.model.limits import JobLimits, key_lane
from holdfast.model.outcomes import Done, Outcome, Released, Retry, Snoozed
from holdfast.storage.ops.audit import list_audit
from holdfast.storage.ops.flows import flow_control, flows
from holdfast.storage.ops.jobs import actions
from tests.patience import SOON

from .flow_kit import BROKE, Flow, all_of, check, create, drain
from .world import ERROR, World, spec

PLAN = {"runs": (), "waits": (), "later": ("runs",), "last": ("later", "waits")}


@pytest.mark.parametrize(
    ("policy", "waits", "asked"),
    [("flow_only", "ready", False), ("cancel_pending", "cancelled", False), ("cancel_all", "cancelled", True)],
)
def test_each_policy_goes_so_far_and_no_further(world: World, policy: str, waits: str, asked: bool) -> None:
    flow = create(world, PLAN)
    claimed = flow.take("runs")
    done = flow.cancel(policy, reason="enough", actor="ann")
    assert done == CancelRecord(CancelPolicy(policy), "enough", world.now)
    assert flow.states() == {"runs": "running", "waits": waits, "later": "cancelled", "last": "cancelled"}
    assert (flow.member("runs").cancel_at is not None) == asked
    assert flow.member("later").cancel_reason == "enough"
    assert flow.record().state is FlowState.RUNNING
    # What runs may still succeed, and nothing is released for it.
    world.finish(flow.owner, claimed, Done("1"))
    assert flow.state("later") == "cancelled"
    if waits == "ready":
        flow.end("waits")
    drain(world)
    check(world)
    assert (flow.record().state, flow.record().live) == (FlowState.CANCELLED, 0)


def test_an_unknown_policy_destroys_least(world: World) -> None:
    flow = create(world, PLAN)
    assert flow.cancel("burn_it_all").policy is CancelPolicy.FLOW_ONLY
    assert flow.states() == {"runs": "ready", "waits": "ready", "later": "cancelled", "last": "cancelled"}


def test_a_repeated_cancel_changes_nothing_and_tells_the_first(world: World) -> None:
    flow = create(world, PLAN)
    flow.take("runs")
    first = flow.cancel("cancel_pending", reason="one")
    before = flow.record()
    again = flow.cancel("cancel_all", reason="two")
    assert again == CancelRecord(first.policy, "one", first.at, again=True)
    assert flow.record() == before
    assert flow.member("runs").cancel_at is None


def test_a_cancelled_flow_still_tells_what_it_was_when_it_has_ended(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    flow.cancel("cancel_pending")
    assert flow.record().state is FlowState.CANCELLED
    assert flow.cancel("cancel_all").policy is CancelPolicy.CANCEL_PENDING


def test_a_flow_that_has_ended_by_itself_cannot_be_cancelled(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    flow.end("a")
    with pytest.raises(FlowEnded):
        flow.cancel()
    with pytest.raises(FlowNotFound):
        each_store.run(flows.cancel_flow, "nobody", "cancel_all")


def test_nothing_is_added_to_a_cancelled_flow(each_store: World) -> None:
    flow = create(each_store, PLAN)
    flow.take("runs")
    flow.cancel("flow_only")
    with pytest.raises(FlowEnded):
        flow.add({"more": ()})


def test_what_has_started_before_goes_on_when_only_the_pending_are_cancelled(each_store: World) -> None:
    flow = create(each_store, {"tried": (), "fresh": ()})
    flow.end("tried", Retry(0, ERROR))
    flow.cancel("cancel_pending")
    assert flow.states() == {"tried": "ready", "fresh": "cancelled"}
    flow.end("tried")
    assert flow.record().state is FlowState.CANCELLED


@pytest.mark.parametrize("outcome", [Retry(0, ERROR), Snoozed(0), Released("shutdown")])
def test_what_has_run_goes_on_whatever_its_run_came_to(each_store: World, outcome: Outcome) -> None:
    flow = create(each_store, {"tried": ()})
    flow.end("tried", outcome)
    flow.cancel("cancel_pending")
    assert flow.state("tried") == "ready"


def test_what_was_taken_from_its_worker_has_started(each_store: World) -> None:
    flow = create(each_store, {"taken": ()})
    flow.take("taken")
    each_store.run(actions.act, flow.ids["taken"], Order(Action.REVOKE), actor="ann", reason="")
    flow.cancel("cancel_pending")
    assert flow.state("taken") == "ready"


def test_members_that_wait_after_a_retry_are_pending_again(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",), "other": ()})
    flow.end("a")
    flow.end("b", BROKE)
    flow.end("other", BROKE)
    each_store.run(flows.retry_flow, flow.id)
    flow.end("other", Retry(0, ERROR))
    flow.cancel("cancel_pending")
    assert flow.states() == {"a": "succeeded", "b": "cancelled", "other": "ready"}


def test_a_retried_member_that_a_limit_holds_back_is_pending_too(each_store: World) -> None:
    limits = JobLimits(key=key_lane("", "one"), capacity=1).encode()
    flow = create(each_store, {"first": ((), {"limits": limits}), "second": ((), {"limits": limits})})
    for name in ("first", "second"):
        flow.end(name, BROKE)
    each_store.clock.advance(1)
    each_store.run(flows.retry_flow, flow.id)
    flow.take("first")
    assert each_store.claim(flow.owner, queues=[flow.queue("second")]) == []
    assert flow.member("second").reason == "limit"
    flow.cancel("cancel_pending")
    assert flow.states() == {"first": "running", "second": "cancelled"}


def test_a_flow_without_members_ends_with_its_cancel(each_store: World) -> None:
    each_store.run(flows.create_flow, FlowSpec(id="empty", name="empty"))
    each_store.run(flows.cancel_flow, "empty", "flow_only")
    assert each_store.read(flows.get_flow, "empty").state is FlowState.CANCELLED


def test_a_cancelled_flow_calls_nobody_back(each_store: World) -> None:
    flow = create(each_store, {"a": ()}, on_success=spec(), on_failure=spec())
    flow.cancel()
    assert each_store.jobs() == 1


def test_a_cancel_is_recorded_with_who_did_it(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    flow.cancel("cancel_all", actor="ann", reason="wrong input")
    flow.cancel("cancel_all", actor="bob")
    (entry,) = each_store.read(list_audit, AuditFilter(target_kind="flow", target=flow.id))
    assert (entry.actor, entry.action, entry.reason) == ("ann", "flow.cancel", "wrong input")


def test_a_cancel_wakes_the_workers_of_what_runs(each_store: World) -> None:
    flow = create(each_store, {"a": ()})
    flow.take("a")
    with closing(each_store.store.wakeups.listen(["cancel"])) as listener:
        flow.cancel("cancel_all")
        assert listener.wait(SOON)


# -- large flows, in pages


def large(world: World, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setattr(flow_control, "PAGE", 3)
    plan = {f"m{i}": all_of(f"m{i - 1}", policy="any") if i else () for i in range(10)}
    return create(world, plan)


def test_a_large_flow_is_cancelled_in_pages_by_whoever_comes(
    each_store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = large(each_store, monkeypatch)
    flow.cancel("cancel_pending")
    assert list(flow.states().values()) == ["cancelled"] * 3 + ["blocked"] * 7
    assert flow.record().live == 7
    drain(each_store)
    assert set(flow.states().values()) == {"cancelled"}
    assert (flow.record().live, flow.record().state) == (0, FlowState.CANCELLED)
    assert each_store.run(flows.cancel_page, flow.id) is False


def test_nothing_is_released_between_two_pages_of_a_cancel(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = large(each_store, monkeypatch)
    claimed = flow.take("m0")
    flow.cancel("flow_only")
    assert flow.state("m3") == "blocked"
    each_store.finish(flow.owner, claimed, Done("1"))
    assert {flow.state(f"m{i}") for i in range(3, 10)} == {"blocked"}
    drain(each_store)
    assert flow.states() == {"m0": "succeeded", **{f"m{i}": "cancelled" for i in range(1, 10)}}
    assert flow.record().state is FlowState.CANCELLED


def test_a_cancel_that_is_over_reaches_nobody_who_runs_again(
    each_store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_control, "PAGE", 3)
    flow = create(each_store, {"a": (), "b": (), "c": (), "done": (), "last": ("done",)})
    flow.end("done")
    flow.end("last")
    # The first page ends all that was left: nobody carries it on.
    flow.cancel("cancel_all", reason="oops")
    assert flow.record().state is FlowState.CANCELLED
    assert each_store.read(flow_control.cancelling) == []
    each_store.run(flows.retry_member, flow.ids["done"])
    drain(each_store)
    assert (flow.state("done"), flow.state("last")) == ("ready", "blocked")
    flow.end("done")
    flow.end("last")
    assert flow.state("last") == "succeeded"
    check(each_store)


def test_a_cancel_that_an_ended_flow_still_carries_is_dropped_when_it_goes_on(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ("a",)})
    flow.end("a")
    flow.end("b")
    each_store.sql("update holdfast_flow set cancel_upto = '' where id = :id", id=flow.id)
    each_store.run(flows.retry_member, flow.ids["a"])
    drain(each_store)
    assert flow.states() == {"a": "ready", "b": "blocked"}


def test_a_member_that_was_cancelled_without_a_reason_counts_against_its_flow(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ()})
    each_store.run(actions.cancel, flow.ids["a"])
    each_store.sql("update holdfast_live set reason = null where id = :id", id=flow.ids["a"])
    flow.end("b")
    assert flow.record().state is FlowState.FAILED


def test_a_cancel_says_which_members_it_reached_and_says_it_again(each_store: World) -> None:
    flow = create(each_store, PLAN)
    flow.take("runs")
    app = App(":memory:", clock=each_store.clock)
    app._opened = each_store.store
    reached = {flow.member(name).id for name in ("runs", "waits", "later", "last")}
    assert set(app.flows.cancel(flow.id).members) == reached
    again = app.flows.cancel(flow.id)
    assert (again.again, set(again.members)) == (True, reached)


def test_a_cancel_of_what_waits_for_others_reaches_nothing_else(each_store: World) -> None:
    flow = create(each_store, PLAN)
    app = App(":memory:", clock=each_store.clock)
    app._opened = each_store.store
    reached = app.flows.cancel(flow.id, "flow_only").members
    assert set(reached) == {flow.member(name).id for name in ("later", "last")}
