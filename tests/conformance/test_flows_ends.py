"""However a member ends, those who wait for it are told and its flow counts it, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.actions import Action, ActionResult, Order
from holdfast.model.flows import FlowState
from holdfast.model.outcomes import Cancelled, Done, Expired, Failed, Finish, Recorded, Retry
from holdfast.storage.ops.flows import dependency_resolution, flows
from holdfast.storage.ops.jobs import actions, finishing, retention

from .flow_kit import BROKE, Flow, all_of, check, create, drain
from .world import ERROR, LEASE, World, spec

End = Callable[[World, Flow], object]


def finish(world: World, flow: Flow) -> None:
    flow.end("a", Done("1"))


def fail(world: World, flow: Flow) -> None:
    flow.end("a", BROKE)


def stop(world: World, flow: Flow) -> None:
    flow.end("a", Cancelled("asked"))


def pass_its_deadline_while_running(world: World, flow: Flow) -> None:
    flow.end("a", Expired())


def cancel(world: World, flow: Flow) -> None:
    world.run(actions.cancel, flow.ids["a"])


def cancel_while_suspended(world: World, flow: Flow) -> None:
    flow.take("a")
    world.sql(
        "update holdfast_live set state = 'suspended', owner = null, claim = null, epoch = epoch + 1 where id = :id",
        id=flow.ids["a"],
    )
    world.run(actions.cancel, flow.ids["a"])


def cancel_by_force(world: World, flow: Flow) -> None:
    flow.take("a")
    world.run(actions.cancel, flow.ids["a"], force=True)


def cancel_in_bulk(world: World, flow: Flow) -> None:
    act(world, Action.CANCEL, flow.ids["a"])


def cancel_in_bulk_by_force(world: World, flow: Flow) -> None:
    flow.take("a")
    act(world, Action.CANCEL, flow.ids["a"], force=True)


def expire(world: World, flow: Flow) -> None:
    world.sql("update holdfast_live set deadline = :now where id = :id", id=flow.ids["a"])
    world.run(finishing.expire_jobs)


def be_lost_once_too_often(world: World, flow: Flow) -> None:
    world.sql("update holdfast_job set max_attempts = 1 where id = :id", id=flow.ids["a"])
    flow.take("a")
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(flow.owner)
    flow.owner = world.worker()


def be_lost_after_a_cancel(world: World, flow: Flow) -> None:
    flow.take("a")
    world.run(actions.cancel, flow.ids["a"])
    world.clock.advance(LEASE / SECOND + 1)
    world.rescue(flow.owner)
    flow.owner = world.worker()


def be_superseded(world: World, flow: Flow) -> None:
    flow.end("a", Retry(60 * SECOND, ERROR))
    world.enqueue(spec(key="k", until="failure"))
    drain(world)


def be_deleted(world: World, flow: Flow) -> None:
    assert world.run(actions.delete, flow.ids["a"]) is ActionResult.CANCELLED


def be_deleted_in_bulk(world: World, flow: Flow) -> None:
    assert act(world, Action.DELETE, flow.ids["a"]) == {flow.ids["a"]: ActionResult.CANCELLED}


def be_deleted_by_an_older_version(world: World, flow: Flow) -> None:
    world.sql("delete from holdfast_job where id = :id", id=flow.ids["a"])
    drain(world)


def be_cancelled_by_an_older_version(world: World, flow: Flow) -> None:
    world.sql(
        "update holdfast_live set state = 'cancelled', due = null, epoch = epoch + 1, dedupe_held = null,"
        " finished_at = :now where id = :id",
        id=flow.ids["a"],
    )
    drain(world)


def act(world: World, action: Action, *ids: str, **options: Any) -> dict[str, ActionResult]:
    return world.run(actions.apply, list(ids), Order(action, **options), actor="me", reason="", target="these")


ENDS: dict[End, tuple[str, str]] = {
    finish: ("succeeded", "ready"),
    fail: ("failed", "skipped"),
    stop: ("cancelled", "skipped"),
    pass_its_deadline_while_running: ("expired", "skipped"),
    cancel: ("cancelled", "skipped"),
    cancel_while_suspended: ("cancelled", "skipped"),
    cancel_by_force: ("cancelled", "skipped"),
    cancel_in_bulk: ("cancelled", "skipped"),
    cancel_in_bulk_by_force: ("cancelled", "skipped"),
    expire: ("expired", "skipped"),
    be_lost_once_too_often: ("failed", "skipped"),
    be_lost_after_a_cancel: ("cancelled", "skipped"),
    be_superseded: ("failed", "skipped"),
    be_deleted: ("cancelled", "skipped"),
    be_deleted_in_bulk: ("cancelled", "skipped"),
    be_deleted_by_an_older_version: ("gone", "skipped"),
    be_cancelled_by_an_older_version: ("cancelled", "skipped"),
}


@pytest.mark.parametrize(("end", "expected"), ENDS.items(), ids=[end.__name__ for end in ENDS])
def test_however_a_member_ends_its_children_and_its_flow_know(
    world: World, end: End, expected: tuple[str, str]
) -> None:
    plan = {"a": ((), {"key": "k", "until": "failure"}), "b": ("a",), "c": all_of("a", policy="any")}
    flow = create(world, plan)
    end(world, flow)
    becomes, child = expected
    if becomes != "gone":
        assert flow.state("a") == becomes
    assert (flow.state("b"), flow.state("c")) == (child, "ready")
    drain(world)
    check(world)
    assert flow.record().live == (2 if child == "ready" else 1)
    for name in ("b", "c"):
        if flow.can_start(name):
            flow.end(name)
    assert flow.record().finished_at is not None
    assert flow.record().state is (FlowState.SUCCEEDED if becomes in ("succeeded", "gone") else FlowState.FAILED)


def test_a_batch_of_ends_tells_a_common_child_once(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": (), "d": ("a", "b", "c")})
    claimed = [flow.take(name) for name in "abc"]
    outcomes = [Done("1"), Done("2"), Retry(0, ERROR)]
    done = [Finish(job.id, job.epoch, outcome) for job, outcome in zip(claimed, outcomes, strict=True)]
    world.run(finishing.finish, flow.owner, done)
    assert (flow.state("d"), flow.record().live) == ("blocked", 2)
    flow.end("c")
    assert flow.state("d") == "ready"


def test_a_finish_that_is_repeated_counts_once(world: World) -> None:
    flow = create(world, {"a": (), "b": (), "c": ("a", "b")})
    claimed = flow.take("a")
    for again in (False, True):
        assert world.finish(flow.owner, claimed, Done("1")) == Recorded("succeeded", again=again)
    assert (flow.state("c"), flow.record().live) == ("blocked", 2)


def test_a_bulk_of_ends_in_one_flow_ends_it_in_one_commit(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)})
    act(each_store, Action.CANCEL, *flow.ids.values())
    assert set(flow.states().values()) == {"cancelled"}
    record = flow.record()
    assert (record.live, record.state) == (0, FlowState.FAILED)
    assert drain(each_store) == 0


def test_one_end_may_concern_more_children_than_a_transaction_should(
    each_store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependency_resolution, "EDGES", 10)
    flow = create(each_store, {"a": (), **{f"b{i}": ("a",) for i in range(25)}})
    flow.end("a")
    assert sum(flow.can_start(name) for name in flow.ids) == 10
    # It has ended, but not for its flow.
    assert flow.record().live == 26
    check(each_store)
    drain(each_store)
    assert sum(flow.can_start(name) for name in flow.ids) == 25
    assert flow.record().live == 25


# -- what others still need


def test_a_member_of_an_unfinished_flow_is_neither_deleted_nor_pruned_nor_loses_its_result(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",)})
    flow.end("a", Done('"kept"'))
    a = flow.ids["a"]
    world.clock.advance(1)
    assert world.run(actions.delete, a) is ActionResult.NEEDED
    assert act(world, Action.DELETE, a) == {a: ActionResult.NEEDED}
    assert world.run(retention.prune_jobs, [a], 0) == 0
    assert world.run(retention.prune_results, [a], 0) == 0
    assert flow.member("a").result == '"kept"'
    flow.end("b")
    world.clock.advance(1)
    assert world.run(retention.prune_results, [a], 0) == 1
    assert world.run(retention.prune_jobs, [a], 0) == 1


def test_with_its_members_go_the_edges_and_at_last_the_flow(world: World) -> None:
    flow = create(world, {"a": (), "b": ("a",), "c": ("b",)})
    for name in "abc":
        flow.end(name)
    world.clock.advance(1)
    assert world.run(retention.prune_jobs, [flow.ids["a"], flow.ids["b"]], 0) == 2
    assert world.run(retention.prune_flows) == 0
    assert world.run(actions.delete, flow.ids["c"]) is ActionResult.DELETED
    assert world.run(retention.prune_flows) == 1
    for table in ("job", "edge", "join", "hop", "flow"):
        assert world.sql(f"select * from holdfast_{table}") == []


def test_deleting_a_finished_member_of_an_ended_flow_removes_it(each_store: World) -> None:
    flow = create(each_store, {"a": (), "b": ()})
    flow.end("a")
    flow.end("b", Failed("permanent", ERROR))
    ids = list(flow.ids.values())
    assert set(act(each_store, Action.DELETE, *ids).values()) == {ActionResult.DELETED}
    assert (each_store.jobs(), each_store.read(flows.get_flow, flow.id).state) == (0, FlowState.FAILED)
