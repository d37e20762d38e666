"""The resolver: what operations have left of flows is carried on, in pages, whoever left it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from holdfast.ids import ids
from holdfast.model.flows import Edge, FlowSpec, FlowState, Member
from holdfast.model.jobs import JobSpec, JobState
from holdfast.model.routing import Route
from holdfast.storage.ops.flows import dependency_resolution, flow_control, flows
from holdfast.storage.ops.jobs import actions, queries
from holdfast.storage.port import Op
from holdfast.storage.sqlite import SqliteStore
from holdfast.worker.maintenance.flow_resolver import Resolver
from tests.patience import SOON


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:")
    store.migrate()
    yield store
    store.close()


def chain(store: SqliteStore, n: int) -> list[str]:
    made = ids.many(n)
    members = tuple(
        Member(spec=JobSpec(id=id, task="work", route=Route("default"), payload="{}"), name=id) for id in made
    )
    edges = tuple(Edge(a, b) for a, b in pairwise(made))
    store.write(Op(lambda tx: flows.create_flow(tx, FlowSpec(id="f", name="f", members=members, edges=edges))))
    return made


def state_of(store: SqliteStore, job_id: str) -> JobState:
    return store.read(Op(lambda tx: queries.get_job(tx, job_id))).state


async def run_all(resolver: Resolver) -> int:
    runs = 1
    while await resolver.run_once() == 0.0:
        runs += 1
    return runs


def test_a_long_cascade_is_carried_to_its_end_with_pauses_for_others(store: SqliteStore) -> None:
    made = chain(store, 500)
    store.write(Op(lambda tx: actions.cancel(tx, made[0])))
    assert state_of(store, made[50]) is JobState.BLOCKED
    assert asyncio.run(run_all(Resolver(store))) > 1
    assert {state_of(store, id) for id in made[1:]} == {JobState.SKIPPED}
    assert store.read(Op(lambda tx: flows.get_flow(tx, "f"))).state is FlowState.FAILED


def test_a_cancel_is_carried_over_all_pages(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "PAGE", 7)
    made = chain(store, 40)
    store.write(Op(lambda tx: flows.cancel_flow(tx, "f", "cancel_all")))
    asyncio.run(run_all(Resolver(store)))
    assert {state_of(store, id) for id in made} == {JobState.CANCELLED}


def test_where_nothing_is_left_it_writes_nothing(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(op: object) -> None:
        raise AssertionError("a write")

    chain(store, 3)
    monkeypatch.setattr(store, "awrite", refuse)
    assert asyncio.run(Resolver(store).run_once()) is None


def test_it_is_woken_by_what_is_left(store: SqliteStore) -> None:
    made = chain(store, 3)

    async def wait_for_notice() -> None:
        woken = asyncio.Event()
        listening = asyncio.create_task(Resolver(store).listen(woken.set))
        await asyncio.sleep(0)
        store.write(Op(lambda tx: actions.cancel(tx, made[0])))
        await asyncio.wait_for(woken.wait(), SOON)
        listening.cancel()

    asyncio.run(wait_for_notice())
    assert store.read(Op(dependency_resolution.left)).hops
