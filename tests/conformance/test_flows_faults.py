"""A process that dies at any statement of any flow operation leaves the store as it was, and the flow finishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.ids import ids
from holdfast.model.actions import Action, Order
from holdfast.model.flows import Edge, FlowSpec, Holder
from holdfast.model.outcomes import Done, Finish
from holdfast.storage.ops.flows import dependency_resolution, edges, endings, flow_control, flows
from holdfast.storage.ops.jobs import actions, finishing
from holdfast.storage.ops.workers import workers

from .faults import survive
from .flow_kit import BROKE, Flow, all_of, any_of, check, create, drain, planned, quorum
from .world import LEASE, World, spec

PLAN: dict[str, Any] = {
    "a": (), "b": (), "c": (), "all": ("a", "b"), "any": any_of("b", "c", rest="cancel"),
    "mend": all_of("a", policy="failure"), "end": all_of("all", "any", "mend", policy="any"),
}  # fmt: skip


def make(world: World) -> Flow:
    return create(world, PLAN, on_success=spec(queue="after"), on_failure=spec(queue="after"))


def finish_all(world: World, flow: Flow) -> None:
    """Whatever was broken, the flow comes to its end and its callback is there once."""
    for _ in range(50):
        drain(world)
        check(world)
        ready = [name for name in flow.ids if flow.can_start(name)]
        if not ready:
            break
        for name in ready:
            if flow.can_start(name):
                flow.end(name)
    record = flow.record()
    assert (record.live, record.finished_at is not None) == (0, True), flow.states()
    callbacks = world.claim(flow.owner, queues=["after"])
    assert len(callbacks) == (0 if record.state == "cancelled" else 1)


def test_creating_a_flow(world: World) -> None:
    flow = Flow(world, ids.new(), {}, world.worker())
    members, arrows = planned(flow, PLAN)
    callbacks = {"on_success": spec(queue="after"), "on_failure": spec(queue="after")}
    whole = FlowSpec(id=flow.id, name="nightly", members=tuple(members), edges=tuple(arrows), **callbacks)
    survive(world, flows.create_flow, whole)
    finish_all(world, flow)


def test_extending_a_flow(world: World) -> None:
    flow = make(world)
    claimed = flow.take("a")
    members, arrows = planned(flow, {"more": ("a",), "most": ("more", "b")})
    flow.end("b")
    arrows.append(Edge(flow.ids["more"], flow.ids["end"]))
    by = Holder(flow.owner, claimed.id, claimed.epoch)
    survive(world, flows.add_members, flow.id, members, arrows, by=by)
    world.finish(flow.owner, claimed, Done("1"))
    finish_all(world, flow)


def test_staging_and_applying_edges(world: World) -> None:
    flow = make(world)
    members, arrows = planned(flow, {"late": ("a", "b"), "free": ()})
    record = survive(world, flows.add_members, flow.id, members, staged=True)
    survive(world, flows.stage_edges, flow.id, arrows, record.revision)
    flow.end("a")
    flow.end("b", BROKE)
    assert survive(world, flows.apply_edges, flow.id) == 2
    assert (flow.state("late"), flow.state("free")) == ("skipped", "ready")
    finish_all(world, flow)


@pytest.mark.parametrize("outcome", [Done("1"), BROKE], ids=["success", "failure"])
def test_ending_a_member(world: World, outcome: Any) -> None:
    flow = make(world)
    claimed = [flow.take("a"), flow.take("b")]
    done = [Finish(job.id, job.epoch, outcome) for job in claimed]
    survive(world, finishing.finish, flow.owner, done)
    finish_all(world, flow)


def test_ending_the_last_member(world: World) -> None:
    flow = create(world, {"a": ()}, on_success=spec(queue="after"))
    claimed = flow.take("a")
    survive(world, finishing.finish, flow.owner, [Finish(claimed.id, claimed.epoch, Done("1"))])
    finish_all(world, flow)


def force_cancel(world: World, flow: Flow) -> None:
    flow.take("b")
    survive(world, actions.cancel, flow.ids["b"], force=True)


def expire(world: World, flow: Flow) -> None:
    world.sql("update holdfast_live set deadline = :now where id in (:a, :b)", a=flow.ids["a"], b=flow.ids["all"])
    survive(world, finishing.expire_jobs)


def rescue(world: World, flow: Flow) -> None:
    world.sql("update holdfast_job set max_attempts = 1 where id = :id", id=flow.ids["a"])
    flow.take("a")
    world.clock.advance(LEASE / 1e6 + 1)
    survive(world, workers.rescue, flow.owner)
    flow.owner = world.worker()


def cancel_in_bulk(world: World, flow: Flow) -> None:
    chosen = [flow.ids["a"], flow.ids["any"]]
    survive(world, actions.apply, chosen, Order(Action.CANCEL), actor="me", reason="", target="these")


ENDS: dict[str, Callable[[World, Flow], object]] = {
    "cancel": lambda world, flow: survive(world, actions.cancel, flow.ids["a"]),
    "force_cancel": force_cancel,
    "cancel_in_bulk": cancel_in_bulk,
    "expire": expire,
    "rescue": rescue,
    "delete": lambda world, flow: survive(world, actions.delete, flow.ids["b"]),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_every_other_end_of_a_member(each_store: World, end: Callable[[World, Flow], object]) -> None:
    flow = make(each_store)
    end(each_store, flow)
    finish_all(each_store, flow)


def test_each_hop_of_a_cascade(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}, on_failure=spec(queue="after"))
    flow.end("a", BROKE)
    for name in ("c", "d"):
        assert flow.state(name) == "blocked"
        survive(world, dependency_resolution.resolve_page)
        assert flow.state(name) == "skipped"
    survive(world, dependency_resolution.resolve_page)
    finish_all(world, flow)


def test_cancelling_what_is_not_needed(each_store: World) -> None:
    flow = create(
        each_store, {"a": (), "b": (), "c": quorum(1, "a", "b", rest="cancel")}, on_success=spec(queue="after")
    )
    flow.end("a")
    survive(each_store, dependency_resolution.sweep)
    assert flow.state("b") == "cancelled"
    finish_all(each_store, flow)


def test_a_callback_that_is_owed(each_store: World) -> None:
    flow = create(each_store, {"a": ()}, on_success=spec(queue="after"))
    each_store.run(actions.set_queue_state, "after", "draining")
    flow.end("a")
    each_store.run(actions.set_queue_state, "after", "active")
    survive(each_store, endings.pay_callbacks)
    finish_all(each_store, flow)


@pytest.mark.parametrize("policy", ["flow_only", "cancel_pending", "cancel_all"])
def test_cancelling_a_flow(world: World, policy: str) -> None:
    flow = make(world)
    claimed = flow.take("a")
    survive(world, flows.cancel_flow, flow.id, policy, actor="me")
    world.finish(flow.owner, claimed, Done("1"))
    finish_all(world, flow)


def test_each_page_of_a_cancel(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "PAGE", 2)
    flow = make(each_store)
    survive(each_store, flows.cancel_flow, flow.id, "cancel_all")
    while survive(each_store, flows.cancel_page, flow.id):
        pass
    assert set(flow.states().values()) == {"cancelled"}
    finish_all(each_store, flow)


def test_retrying_a_flow(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",)}, on_success=spec(queue="after"))
    flow.end("a", BROKE)
    drain(world)
    assert len(survive(world, flows.retry_flow, flow.id)) == 3
    finish_all(world, flow)


def test_replaying_a_member(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",)})
    for name in "abc":
        flow.end(name)
    assert len(survive(world, flows.retry_member, flow.ids["b"])) == 2
    for name in "bc":
        flow.end(name)
    assert survive(world, actions.retry, flow.ids["c"]) is True
    flow.end("c")
    assert (flow.record().live, flow.record().state) == (0, "succeeded")


def test_waiting_for_jobs(each_store: World) -> None:
    job, waiter = each_store.add(), each_store.add()
    assert survive(each_store, edges.await_jobs, waiter, [job, "nobody"]) is False
    assert each_store.job(job).linked == 1
    each_store.run(actions.cancel, job)
    assert survive(each_store, edges.await_jobs, waiter, [job]) is True
