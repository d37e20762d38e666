"""Hooks: whichever way a job ends, what it named is enqueued by the transaction that ends it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import TERMINAL, Hook, JobState
from holdfast.model.outcomes import Done, Failed, Retry
from holdfast.storage.ops.flows import dependency_resolution
from holdfast.storage.ops.jobs import actions, finishing, retention
from holdfast.storage.port import Op, Tx

from .world import ERROR, World, spec


def hooks(*ons: str) -> str:
    made = [Hook(on=on, spec=spec(task=f"on-{on}", queue="hooks"), takes="job", wants=("state",)) for on in ons]  # type: ignore[arg-type]
    return msgspec.json.encode(made).decode()


ALL = hooks("success", "failure", "end")


def enqueued(world: World) -> list[tuple[str, dict[str, Any]]]:
    rows = world.sql("select task, payload from holdfast_any_job where queue = 'hooks' order by task")
    return [(task, json.loads(payload)) for task, payload in rows]


@pytest.mark.parametrize("state", sorted(TERMINAL - {JobState.SKIPPED}))
def test_each_end_enqueues_the_hooks_that_are_meant(world: World, state: JobState) -> None:
    placed = world.place(state, hooks=ALL, tenant="acme")
    own = {"succeeded": ["on-success"], "failed": ["on-failure"], "expired": ["on-failure"]}.get(str(state), [])
    assert enqueued(world) == [(task, {"job": placed.id, "state": str(state)}) for task in ["on-end", *own]]
    assert {tenant for (tenant,) in world.sql("select tenant from holdfast_job")} == {"acme"}


def test_a_hook_of_a_success_is_not_given_the_error_of_an_earlier_run(world: World) -> None:
    hook = Hook(on="end", spec=spec(task="on-end", queue="hooks"), takes="job", wants=("state", "error"))
    job, owner = world.add(hooks=msgspec.json.encode([hook]).decode()), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.finish(owner, world.take(owner), Done('"fine"'))
    assert enqueued(world) == [("on-end", {"job": job, "state": "succeeded", "error": None})]


def test_nothing_is_enqueued_before_the_end(world: World) -> None:
    world.add(hooks=ALL)
    owner = world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.take(owner)
    assert enqueued(world) == []


def test_a_job_whose_worker_is_lost_for_the_last_time_enqueues_its_hooks(world: World) -> None:
    job = world.add(hooks=ALL, max_attempts=1)
    owner = world.worker()
    world.take(owner)
    while world.job(job).state not in TERMINAL:
        world.lose(owner)
        world.clock.advance(3600)
        if world.job(job).state not in TERMINAL:
            owner = world.worker()
            world.claim(owner, suspects=1)
    assert enqueued(world) == [(task, {"job": job, "state": "failed"}) for task in ("on-end", "on-failure")]


def test_an_operators_ends_enqueue_hooks(world: World) -> None:
    waiting, running = world.place(JobState.READY, hooks=ALL), world.place(JobState.RUNNING, hooks=ALL)
    world.run(actions.cancel, waiting.id)
    world.run(actions.cancel, running.id, force=True)
    gone = world.place(JobState.READY, hooks=ALL)
    world.run(actions.delete, gone.id)
    assert sorted(args["job"] for _, args in enqueued(world)) == sorted([waiting.id, running.id, gone.id])


def test_a_superseded_job_has_failed_and_its_hooks_come_with_the_next_look(world: World) -> None:
    first, owner = world.add(key="k", until="failure", hooks=ALL), world.worker()
    world.finish(owner, world.take(owner), Retry(60 * SECOND, ERROR))
    world.add(key="k", until="failure")
    world.run(dependency_resolution.resolve_page)
    assert [args["job"] for _, args in enqueued(world)] == [first, first]


def test_what_is_rolled_back_enqueues_nothing(each_store: World) -> None:
    placed = each_store.place(JobState.READY, hooks=ALL)

    async def crash(tx: Tx) -> None:
        await actions.cancel(tx, placed.id)
        raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError):
        each_store.store.write(Op(crash))
    assert enqueued(each_store) == []
    assert each_store.job(placed.id).state is JobState.READY


def test_a_closed_queue_neither_stops_the_end_nor_loses_the_hook(world: World) -> None:
    world.sql("insert into holdfast_queue (name, state) values ('hooks', 'disabled')")
    placed = world.place(JobState.SUCCEEDED, hooks=hooks("success"))
    assert enqueued(world) == [("on-success", {"job": placed.id, "state": "succeeded"})]


def test_hooks_are_forgotten_with_their_job(world: World) -> None:
    placed = world.place(JobState.SUCCEEDED, hooks=ALL)
    world.clock.advance(5)
    assert world.run(retention.prune_jobs, [placed.id], 0) == 1
    assert world.sql("select count(*) from holdfast_hook") == [(0,)]


def test_a_hook_may_have_hooks(world: World) -> None:
    inner = spec(task="first", queue="hooks", hooks=hooks("end"))
    chain = msgspec.json.encode([Hook(on="end", spec=inner, takes="job")]).decode()
    world.place(JobState.SUCCEEDED, hooks=chain)
    owner = world.worker(queues=["hooks"])
    first = world.take(owner, queues=["hooks"])
    world.finish(owner, first, Failed("permanent", ERROR))
    assert [task for task, _ in enqueued(world)] == ["first", "on-end"]


def test_an_expired_job_enqueues_hooks_in_the_same_commit(world: World) -> None:
    job = world.add(hooks=hooks("failure"), deadline=SECOND)
    world.clock.advance(2)
    world.run(finishing.expire_jobs)
    assert enqueued(world) == [("on-failure", {"job": job, "state": "expired"})]
