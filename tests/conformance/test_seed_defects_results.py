"""The bugs that a queue of model calls shipped, known as number 20: in claims, crashes, results and deletions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from holdfast.errors import IllegalMove
from holdfast.ids import ids
from holdfast.model.actions import Action, Order
from holdfast.model.artifacts import Content
from holdfast.model.jobs import Claimed, JobState
from holdfast.model.outcomes import Done, Failed, Retry
from holdfast.model.steps import Step
from holdfast.rules.lifecycle import CRASH_CAP
from holdfast.rules.steps import key_of
from holdfast.storage.ops.artifacts import artifacts, blobs
from holdfast.storage.ops.jobs import actions, finishing, retention
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Params, Tx
from holdfast.storage.statements import Statement

from .faulty import FaultyTx
from .racing import all_at_once
from .world import ERROR, World, spec


def test_d20_no_two_workers_take_the_same_job(two_worlds: tuple[World, World]) -> None:
    first, _ = two_worlds
    for _ in range(5):
        added = first.enqueue(*(spec() for _ in range(30)))
        takers = [partial(world.claim, world.worker(), 10) for world in two_worlds * 3]
        taken = [job for claimed in all_at_once(takers) for job in claimed]
        assert len({job.id for job in taken}) == len(taken)
        left = first.claim(first.worker(), 100)
        assert {job.id for job in [*taken, *left]} == {answer.id for answer in added}


def test_d20_a_job_that_takes_its_worker_down_each_time_is_counted_and_given_up(world: World) -> None:
    job_id = world.add(max_attempts=0)
    losses = 0
    while world.job(job_id).state is JobState.READY:
        owner = world.worker()
        world.take(owner, suspects=1, alone=True)
        world.lose(owner)
        losses += 1
        assert world.job(job_id).attempts == losses
        assert losses <= 2 * CRASH_CAP
    job = world.job(job_id)
    assert (job.state, job.reason, job.crashes) == (JobState.FAILED, "worker_lost", CRASH_CAP)
    assert world.claim(world.worker(), suspects=10) == []


def test_d20_no_later_change_of_state_erases_a_result(world: World) -> None:
    owner, other = world.worker(), world.worker()
    world.add()
    job = world.take(owner)
    world.finish(owner, job, Done('"right"'))
    world.run(actions.cancel, job.id)
    world.run(actions.cancel, job.id, force=True)
    for outcome in (Retry(0, ERROR), Failed("permanent", ERROR), Done('"late"')):
        for who in (owner, other):
            world.finish(who, job, outcome)
    for change in (
        actions.run_now,
        partial(actions.act, order=Order(Action.SET_PRIORITY, priority=3), actor="ann", reason=""),
    ):
        with pytest.raises(IllegalMove):
            world.run(change, job.id)
    world.lose(owner)
    world.clock.advance(86_400)
    world.run(finishing.expire_jobs)
    world.run(workers.beat, other)
    found = world.job(job.id)
    assert (found.state, found.result) == (JobState.SUCCEEDED, '"right"')
    assert world.read(artifacts.locate, job.id, "completion").data == b'"right"'


def test_d20_a_replay_shows_no_result_of_the_run_before(world: World) -> None:
    owner = world.worker()
    world.add()
    job = world.take(owner)
    world.finish(owner, job, Done('"old"'))
    world.run(actions.retry, job.id)
    assert world.job(job.id).result is None
    world.finish(owner, world.take(owner), Failed("permanent", ERROR))
    assert world.job(job.id).result is None


# -- deletions


def by_delete(tx: Tx, job_id: str) -> Any:
    return actions.delete(tx, job_id)


def by_bulk(tx: Tx, job_id: str) -> Any:
    return actions.apply(tx, [job_id], Order(Action.DELETE), actor="ada", reason="", target="jobs")


def by_retention(tx: Tx, job_id: str) -> Any:
    return retention.prune_jobs(tx, [job_id], 0)


@pytest.mark.parametrize("delete", [by_delete, by_bulk, by_retention])
def test_d20_a_delete_that_fails_at_any_statement_leaves_the_job_with_all_its_artifacts(
    each_store: World, delete: Callable[[Tx, str], Any]
) -> None:
    world = each_store
    job_id = with_artifacts(world)
    whole = standing(world, job_id)
    statements = 0
    while breaks_at(world, partial(delete, job_id=job_id), statements):
        assert standing(world, job_id) == whole
        statements += 1
    assert statements > 1
    assert standing(world, job_id) == ([], [], [("doomed", 0)])


def with_artifacts(world: World) -> str:
    owner = world.worker()
    world.add()
    job = world.take(owner)
    blob = ids.new()
    world.run(blobs.begin, owner, job.id, job.epoch, blob)
    store(world, owner, job, "small", data=b"x")
    store(world, owner, job, "large", blob=blob)
    world.finish(owner, job, Done("1"))
    return job.id


def store(world: World, owner: str, job: Claimed, name: str, **where: Any) -> None:
    step = Step(key=key_of("artifact", name, 1), kind="artifact", name=name, called="", position=1)
    content = Content(name, "text/plain", 1, hashlib.sha256(b"x").hexdigest(), **where)
    world.run(artifacts.add, owner, job.id, job.epoch, step, content)


def standing(world: World, job_id: str) -> tuple[Sequence[Any], ...]:
    """The job, its artifacts, and the bytes of the large one."""
    return (
        world.sql("select id, state, result from holdfast_any_job where id = :id", id=job_id),
        world.sql("select name, size, sha256 from holdfast_artifact where job_id = :id order by name", id=job_id),
        world.sql("select state, refs from holdfast_blob"),
    )


def breaks_at(world: World, op: Callable[[Tx], Any], n: int) -> bool:
    """Run an operation that breaks before its statement number n; False if it has none and was committed."""
    left = n

    def before(statement: Statement, rows: Sequence[Params]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ConnectionError(f"broken before {statement.name}")

    async def run(tx: Tx) -> None:
        nonlocal left
        left = n
        await op(FaultyTx(tx, before))  # type: ignore[arg-type]

    try:
        world.store.write(Op(run))
    except ConnectionError:
        return True
    return False
