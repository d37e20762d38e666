"""What flows cost: as much per ended job in a large flow as in a small one, and nothing to jobs without."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.ids import ids
from holdfast.model.flows import FlowSpec
from holdfast.model.jobs import Claimed
from holdfast.model.outcomes import Done, Finish, Retry
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions, finishing

from .faults import statements_of
from .flow_kit import Flow, create, drain, planned
from .world import ERROR, World, spec


def ending(world: World, owner: str, *claimed: Claimed) -> list[str]:
    """The statements of one finish."""
    return statements_of(world, finishing.finish, owner, [Finish(job.id, job.epoch, Done("1")) for job in claimed])


def fan_in(world: World, n: int) -> Flow:
    return create(world, {**{f"m{i}": () for i in range(n)}, "end": tuple(f"m{i}" for i in range(n))})


def test_an_end_costs_the_same_statements_in_a_large_flow_as_in_a_small_one(each_store: World) -> None:
    costs = []
    for n in (3, 300):
        flow = fan_in(each_store, n)
        costs.append(ending(each_store, flow.owner, flow.take("m0")))
    assert costs[0] == costs[1]
    assert len(costs[0]) <= 6


def test_many_ends_under_one_child_cost_as_many_statements_as_two(each_store: World) -> None:
    flow = fan_in(each_store, 60)
    two = ending(each_store, flow.owner, flow.take("m0"), flow.take("m1"))
    many = ending(each_store, flow.owner, *[flow.take(f"m{i}") for i in range(2, 52)])
    assert many == two


def test_the_release_of_many_children_costs_as_many_statements_as_of_one(each_store: World) -> None:
    costs = []
    for n in (1, 200):
        flow = create(each_store, {"a": (), **{f"m{i}": ("a",) for i in range(n)}})
        costs.append(ending(each_store, flow.owner, flow.take("a")))
        assert all(flow.can_start(f"m{i}") for i in range(n))
    assert costs[0] == costs[1]


def test_making_a_large_flow_costs_as_many_statements_as_a_small_one(each_store: World) -> None:
    costs = []
    for n in (2, 200):
        flow = Flow(each_store, ids.new(), {}, each_store.worker())
        members, edges = planned(flow, {f"m{i}": (f"m{i - 1}",) if i else () for i in range(n)})
        whole = FlowSpec(id=flow.id, name="n", members=tuple(members), edges=tuple(edges))
        costs.append(statements_of(each_store, flows.create_flow, whole))
    assert costs[0] == costs[1]


def test_a_member_that_is_tried_again_costs_one_look(each_store: World) -> None:
    flow, owner = fan_in(each_store, 2), each_store.worker()
    each_store.add()
    outcomes = []
    for job, of in ((each_store.take(owner), owner), (flow.take("m0"), flow.owner)):
        outcomes.append(statements_of(each_store, finishing.finish, of, [Finish(job.id, job.epoch, Retry(0, ERROR))]))
    assert [*outcomes[0], "take_hops"] == outcomes[1]


FLOWS = {
    "take_hops",
    "page_of_hops",
    "mark_edges",
    "count_join",
    "lower_live",
    "get_flow",
    "needed_jobs",
    "forget_ends",
}
ENDS: dict[str, Callable[[World], list[str]]] = {
    "finish": lambda world: _finish(world),
    "cancel": lambda world: statements_of(world, actions.cancel, world.add()),
    "force cancel": lambda world: statements_of(world, actions.cancel, _running(world).id, force=True),
    "expire": lambda world: _expire(world),
    "replay": lambda world: statements_of(world, actions.retry, _ended(world)),
    "delete": lambda world: statements_of(world, actions.delete, world.add()),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_job_without_a_flow_pays_nothing_for_those_with_one(
    each_store: World, end: Callable[[World], list[str]]
) -> None:
    fan_in(each_store, 3)
    assert not FLOWS & set(end(each_store))


def test_a_cascade_takes_one_transaction_for_each_hop_however_wide_it_is(each_store: World) -> None:
    plan: dict[str, object] = {"a": ()}
    for i in range(50):
        plan |= {f"b{i}": ("a",), f"c{i}": (f"b{i}",)}
    flow = create(each_store, plan)
    job = flow.take("a")
    each_store.run(actions.cancel, job.id, force=True)
    assert drain(each_store) == 2
    assert flow.record().live == 0


def _running(world: World) -> Claimed:
    world.enqueue(spec(queue="here"))
    return world.take(world.worker(), queues=["here"])


def _finish(world: World) -> list[str]:
    world.add(queue="there")
    owner = world.worker()
    return ending(world, owner, world.take(owner, queues=["there"]))


def _ended(world: World) -> str:
    job_id = world.add()
    world.run(actions.cancel, job_id)
    return job_id


def _expire(world: World) -> list[str]:
    world.add(deadline=0)
    return statements_of(world, finishing.expire_jobs)
