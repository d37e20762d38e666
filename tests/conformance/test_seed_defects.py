"""Bugs that earlier systems shipped, by the numbers under which they are known; each must stay impossible here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.model.jobs import Enqueued, JobRecord, JobState
from holdfast.model.outcomes import Done, Failed, Lost, Recorded, Rerouted, Retry
from holdfast.model.routing import Route
from holdfast.rules.failure import Failure, FailureClass, decide
from holdfast.rules.retry import DEFAULT
from holdfast.storage.ops.jobs import actions, enqueue, finishing, queries
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.worker import Worker

from . import doomed_tasks
from .racing import all_at_once
from .world import ERROR, LEASE, World, spec


def test_d1_an_old_handle_cannot_finish_a_job_whose_attempt_was_failed_for_retry(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    old = world.take(owner)
    world.finish(owner, old, Retry(0, ERROR))
    before = world.row(job_id)
    world.finish(owner, old, Done('"late"'))
    assert world.row(job_id) == before
    new = world.take(owner)
    world.finish(owner, old, Done('"later"'))
    assert world.job(job_id).state is JobState.RUNNING
    assert world.finish(owner, new, Done('"right"')) == Recorded("succeeded")
    assert world.job(job_id).result == '"right"'


def test_d3_a_completed_job_no_longer_reads_as_active(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    world.finish(owner, world.take(owner), Done("1"))
    job = world.job(job_id)
    assert (job.state, job.owner, job.claim, job.due) == (JobState.SUCCEEDED, None, None, None)
    assert world.run(workers.beat, owner) == []
    assert [(count.state, count.jobs) for count in world.run(queries.count_jobs)] == [("succeeded", 1)]
    assert world.lose(owner) == []
    assert world.claim(world.worker()) == []


def test_d4_a_failing_job_is_retried_neither_at_once_nor_for_ever(world: World) -> None:
    job_id, owner = world.add(), world.worker()
    waits: list[int] = []
    while world.job(job_id).state is JobState.READY:
        job = world.take(owner)
        failure = Failure(FailureClass.TRANSIENT, ERROR)
        world.finish(owner, job, decide(failure, job, DEFAULT, now=world.now, u=0.5))
        waits.append(world.job(job_id).not_before - world.now)
        assert world.claim(owner) == []
        world.clock.advance(waits[-1] / SECOND)
    assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "exhausted")
    assert (len(waits), world.job(job_id).attempts) == (5, 5)
    assert waits[0] >= SECOND
    assert waits[:4] == sorted(waits[:4])


def test_d5_every_job_that_was_created_can_be_claimed(world: World) -> None:
    special = Route("default", frozenset({"gpu"}))
    answers = world.enqueue(
        spec(), spec(delay=SECOND), spec(at=world.now + 1), spec(key="k"), spec(tenant="t"), spec(priority=-100),
        spec(route=special), spec(id="named", explicit_id=True), spec(deadline=60 * SECOND), spec(max_attempts=0),
    )  # fmt: skip
    world.clock.advance(1)
    claimed = world.claim(world.worker(), 100, tiers=[[Route("default"), special]])
    assert {job.id for job in claimed} == {answer.id for answer in answers}


def test_d8_a_name_that_is_used_again_does_not_pass_for_its_earlier_owner(world: World) -> None:
    job_id = world.add()
    world.worker("slot-1")
    old = world.take("slot-1")
    world.lose("slot-1")
    world.worker("slot-1")
    new = world.take("slot-1", suspects=1)
    assert (new.id, new.epoch > old.epoch) == (job_id, True)
    before = world.row(job_id)
    assert world.finish("slot-1", old, Done("1")) == Lost()
    assert world.row(job_id) == before


def test_d9_a_replayed_dead_job_has_all_its_attempts_again(world: World) -> None:
    job_id, owner = world.add(max_attempts=2), world.worker()
    world.finish(owner, world.take(owner), Retry(0, ERROR))
    world.finish(owner, world.take(owner), Failed("exhausted", ERROR))
    world.run(actions.retry, job_id)
    job = world.take(owner)
    outcome = decide(Failure(FailureClass.TRANSIENT, ERROR), job, DEFAULT, now=world.now, u=0.5)
    assert isinstance(outcome, Retry)
    world.finish(owner, job, outcome)
    assert (world.job(job_id).state, world.job(job_id).attempts) == (JobState.READY, 1)


def test_d14_a_worker_that_was_too_late_cannot_end_a_job_that_another_owns(world: World) -> None:
    job_id, slow = world.add(), world.worker()
    old = world.take(slow)
    world.lose(slow)
    quick = world.worker()
    new = world.take(quick, suspects=1)
    before = world.row(job_id)
    for outcome in (Done("1"), Failed("permanent", ERROR), Retry(0, ERROR)):
        assert world.finish(slow, old, outcome) == Lost()
    assert world.row(job_id) == before
    assert world.finish(quick, new, Done("2")) == Recorded("succeeded")


def test_d15_concurrent_enqueues_with_one_key_make_one_job(two_worlds: tuple[World, World]) -> None:
    first, _ = two_worlds
    for key in "abcdefghij":
        answers = [answer for (answer,) in all_at_once([partial(_add_keyed, world, key) for world in two_worlds * 3])]
        assert len({answer.id for answer in answers}) == 1
        assert [answer.created for answer in answers].count(True) == 1
    assert first.jobs() == 10


def _add_keyed(world: World, key: str) -> list[Enqueued]:
    return world.enqueue(spec(key=key))


def test_d16_a_job_that_outlasts_many_leases_runs_once_while_its_worker_beats(world: World) -> None:
    world.add()
    owner, other = world.worker(), world.worker()
    claimed = world.take(owner)
    for _ in range(30):
        world.clock.advance(LEASE / SECOND / 3)
        world.run(workers.beat, other)
        assert [owned.epoch for owned in world.run(workers.beat, owner)] == [claimed.epoch]
        assert world.rescue(owner).rescued == ()
        assert world.claim(other, suspects=1) == []
    assert world.finish(owner, claimed, Done("1")) == Recorded("succeeded")
    assert world.job(claimed.id).attempts == 1


def test_d18_a_job_of_an_unknown_type_is_claimed_once_and_ends_at_its_age_limit(world: World) -> None:
    job_id, stranger = world.add(task="rare"), world.worker()
    claimed = world.take(stranger)
    knows = Route("default").requiring("task:rare")
    world.finish(stranger, claimed, Rerouted(knows, "no_handler", world.now + 60 * SECOND))
    for _ in range(5):
        world.clock.advance(10)
        assert world.claim(stranger) == []
        assert world.run(finishing.expire_jobs) == []
    world.clock.advance(10)
    assert world.run(finishing.expire_jobs) == [job_id]
    job = world.job(job_id)
    assert (job.state, job.reason, job.attempts) == (JobState.FAILED, "no_handler", 0)


def test_d19_two_claims_in_one_instant_are_two_identities(world: World) -> None:
    job_id, first, second = world.add(), world.worker(), world.worker()
    instant = world.now
    old = world.take(first)
    assert world.rescue(first, certain=True).rescued == (job_id,)
    new = world.take(second, suspects=1)
    assert world.now == instant
    assert new.epoch != old.epoch
    before = world.row(job_id)
    assert world.finish(first, old, Done('"late"')) == Lost()
    assert world.row(job_id) == before
    world.finish(second, new, Done('"right"'))
    assert world.finish(first, old, Done('"late"')) == Lost()
    assert world.job(job_id).result == '"right"'


# -- what needs a worker and real time


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Any = (
        SqliteStore(tmp_path / "jobs.db", durable=False)
        if request.param == "sqlite"
        else PostgresStore(request.getfixturevalue("postgres_dsn"))
    )
    with closing(made):
        yield made


def with_a_worker(store: Store, tasks: dict[str, Any], during: Callable[[], Awaitable[None]], **settings: Any) -> None:
    """Run `during` beside a worker that polls often and ends at once."""

    async def run() -> None:
        async with asyncio.timeout(30):
            worker = Worker(store, tasks, WorkerSettings(**{"poll": 0.05, "block_warning": 0, **settings}))
            await worker.start()
            try:
                await during()
            finally:
                await worker.stop(grace=0)

    asyncio.run(run())


async def until(store: Store, job_id: str, wanted: Callable[[JobRecord], bool]) -> JobRecord:
    """The job once it is as wanted; each change that matters here rings."""
    with closing(store.wakeups.listen(["finished", "queue:default"])) as listener:
        while not wanted(job := await store.aread(Op(lambda tx: queries.get_job(tx, job_id)))):
            await listener.await_ring(0.2)
    return job


def add(store: Store, task: str, payload: str = "{}", **fields: Any) -> str:
    wanted = spec(task=task, payload=payload, **fields)
    assert store.write(Op(lambda tx: enqueue.enqueue(tx, [wanted]))) == [Enqueued(wanted.id, True)]
    return wanted.id


@pytest.mark.parametrize("task", ["panics", "leaves"])
def test_d13_a_handler_that_panics_fails_its_job_at_once_and_not_its_worker(store: Store, task: str) -> None:
    jobs = [add(store, task, _no_arguments(), max_attempts=1) for _ in range(2)]

    async def both_fail() -> None:
        for job_id in jobs:
            job = await until(store, job_id, lambda job: job.state.is_terminal)
            assert (job.state, job.reason) == (JobState.FAILED, "exhausted")

    # The lease is far longer than the test's limit: no rescue could do this.
    with_a_worker(store, dict(doomed_tasks.app.tasks), both_fail, lease=600, concurrency=1)


def test_d13_cancelling_a_job_leaves_no_child_process_behind(store: Store, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    payload = doomed_tasks.runs_for_ever.job(str(note)).payload
    job_id = add(store, "runs_for_ever", payload)

    async def cancel_it() -> None:
        while not (noted := note.read_text() if note.exists() else ""):
            await asyncio.sleep(0.01)
        pid = int(noted)
        assert _exists(pid)
        await store.awrite(Op(lambda tx: actions.cancel(tx, job_id)))
        assert (await until(store, job_id, lambda job: job.state.is_terminal)).state is JobState.CANCELLED
        while _exists(pid):  # killed, but perhaps not yet laid to rest
            await asyncio.sleep(0.01)

    with_a_worker(store, dict(doomed_tasks.app.tasks), cancel_it, cancel_grace=0.1)


def test_d18_a_worker_hands_a_task_that_it_does_not_know_to_one_that_does(store: Store) -> None:
    job_id = add(store, "known_elsewhere", _no_arguments())
    unknowing = {"panics": doomed_tasks.panics}

    async def left_alone() -> None:
        job = await until(store, job_id, lambda job: job.reason == "no_handler")
        assert (job.state, job.attempts, job.epoch) == (JobState.READY, 0, 2)

    async def done() -> None:
        await until(store, job_id, lambda job: job.state is JobState.SUCCEEDED)

    with_a_worker(store, unknowing, left_alone)
    # Claimed once, and not again in all the time that worker was there.
    assert store.read(Op(lambda tx: queries.get_job(tx, job_id))).epoch == 2
    with_a_worker(store, dict(doomed_tasks.app.tasks), done)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _no_arguments() -> str:
    return doomed_tasks.panics.job().payload
