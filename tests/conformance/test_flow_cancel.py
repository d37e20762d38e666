"""Cancelling a flow: three policies, the least destructive where in doubt, once, whatever breaks in between."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.errors import FlowEnded, FlowNotFound
from holdfast.model.audit import AuditFilter
from holdfast.model.flow import CancelPolicy, FlowCancel, FlowSpec, FlowState
from holdfast.model.outcome import Done, Retry
from holdfast.storage.ops import flow_control, flows
from holdfast.storage.ops.audit import list_audit

from .flow_kit import Flow, all_of, check, create, drain
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
    assert done == FlowCancel(CancelPolicy(policy), "enough", world.now)
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
    assert again == FlowCancel(first.policy, "one", first.at, again=True)
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
    with closing(each_store.store.bell.listen(["cancel"])) as listener:
        flow.cancel("cancel_all")
        assert listener.wait(5)


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
