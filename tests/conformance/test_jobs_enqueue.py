"""Putting jobs into the store, without dedupe keys."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import IdTaken, NotFound, NotInTransaction, SchemaMismatch
from holdfast.ids import ids
from holdfast.model.jobs import Enqueued, JobState
from holdfast.model.routing import Route
from holdfast.storage.ops.jobs import enqueue
from holdfast.storage.ops.routing import routes
from holdfast.storage.port import ListOp, Op
from tests.patience import SOON

from .world import World, begin, spec


def test_a_new_job_has_its_id_and_is_ready_at_once(world: World) -> None:
    wanted = spec(payload='{"a": 1}', priority=3)
    assert world.enqueue(wanted) == [Enqueued(wanted.id, created=True)]
    job = world.job(wanted.id)
    assert (job.state, job.reason, job.payload, job.priority) == (JobState.READY, "new", '{"a": 1}', 3)
    assert (job.attempts, job.epoch, job.generation, job.owner) == (0, 0, 0, None)
    assert job.created_at == job.not_before == job.rank == world.now


def test_every_field_of_a_job_is_kept(world: World) -> None:
    wanted = spec(
        task="mail", queue="post", tenant="acme", payload='{"é": "\\u0000 ok"}', tags='["a"]', trace="00-ab",
        priority=-5, max_attempts=7, retry='{"kind": "none"}', timeout=5 * SECOND, deadline=60 * SECOND,
        delay=10 * SECOND,
    )  # fmt: skip
    world.enqueue(wanted)
    job = world.job(wanted.id)
    assert (job.task, job.queue, job.route, job.tenant) == ("mail", "post", Route("post").number, "acme")
    assert (job.payload, job.tags, job.trace, job.priority) == (wanted.payload, '["a"]', "00-ab", -5)
    assert (job.max_attempts, job.retry, job.timeout) == (7, wanted.retry, 5 * SECOND)
    assert (job.deadline, job.not_before) == (world.now + 60 * SECOND, world.now + 10 * SECOND)


def test_a_delay_counts_from_the_stores_own_clock(world: World) -> None:
    job = world.job(world.add(delay=5 * SECOND))
    assert (job.reason, job.not_before) == ("delay", world.now + 5 * SECOND)


def test_a_start_and_a_deadline_may_be_instants(world: World) -> None:
    job = world.job(world.add(at=world.now + 9, deadline_at=world.now + 99))
    assert (job.not_before, job.deadline) == (world.now + 9, world.now + 99)


def test_a_start_in_the_past_is_due_at_once(world: World) -> None:
    job_id = world.add(at=world.now - SECOND)
    assert world.take(world.worker()).id == job_id


def test_a_bulk_is_answered_in_order_and_its_ids_grow(world: World) -> None:
    specs = [spec(id=id) for id in ids.many(50)]
    assert [answer.id for answer in world.enqueue(*specs)] == [s.id for s in specs]
    assert [job.id for job in world.claim(world.worker(), 50)] == sorted(s.id for s in specs)


def test_an_empty_bulk_is_no_error(world: World) -> None:
    assert world.enqueue() == []


def test_keyless_jobs_take_the_short_way_to_the_same_end(world: World) -> None:
    specs = [spec(id=id) for id in ids.many(3)]
    assert world.run(enqueue.enqueue_keyless, specs) == [Enqueued(s.id, True) for s in specs]
    assert [job.id for job in world.claim(world.worker())] == [s.id for s in specs]


def test_an_enqueue_repeated_after_an_unknown_outcome_is_one_job(world: World) -> None:
    wanted = spec()
    for _ in range(2):
        assert world.run(enqueue.enqueue_keyless, [wanted]) == [Enqueued(wanted.id, created=True)]
        assert world.enqueue(wanted) == [Enqueued(wanted.id, created=True)]
    assert world.jobs() == 1


def test_the_same_id_and_payload_returns_the_existing_job(world: World) -> None:
    world.add(id="mine", explicit_id=True, payload="1", priority=1)
    before = world.row("mine")
    again = spec(id="mine", explicit_id=True, payload="1", priority=9)
    assert world.enqueue(again) == [Enqueued("mine", created=False)]
    assert world.row("mine") == before


def test_the_same_id_is_recognised_when_its_job_has_ended(world: World) -> None:
    placed = world.place(JobState.SUCCEEDED, id="mine", explicit_id=True)
    before = world.row("mine")
    assert world.enqueue(spec(id="mine", explicit_id=True, queue=placed.queue)) == [Enqueued("mine", created=False)]
    assert world.row("mine") == before


@pytest.mark.parametrize("other", [{"payload": "2"}, {"task": "rest"}])
def test_the_same_id_with_another_payload_or_task_is_an_error_and_changes_nothing(
    world: World, other: dict[str, Any]
) -> None:
    world.add(id="mine", explicit_id=True, payload="1")
    before = world.row("mine")
    with pytest.raises(IdTaken):
        world.enqueue(spec(), spec(**{"id": "mine", "explicit_id": True, "payload": "1", **other}), spec())
    assert world.row("mine") == before
    assert world.jobs() == 1


def test_the_same_id_twice_in_one_bulk_is_one_job(world: World) -> None:
    twice = [spec(id="mine", explicit_id=True, payload="1") for _ in range(2)]
    assert world.enqueue(*twice) == [Enqueued("mine", True), Enqueued("mine", False)]
    assert world.jobs() == 1


def test_the_same_id_with_two_payloads_in_one_bulk_is_an_error_and_changes_nothing(world: World) -> None:
    with pytest.raises(IdTaken):
        world.enqueue(*(spec(id="mine", explicit_id=True, payload=text) for text in "12"))
    assert world.jobs() == 0


def test_a_bulk_is_all_or_nothing(world: World) -> None:
    with pytest.raises(Exception, match="(?i)check|constraint"):
        world.enqueue(spec(), spec(task=""), spec())
    assert world.jobs() == 0


def test_a_special_route_becomes_known_with_its_first_job(world: World) -> None:
    route = Route("default", frozenset({"gpu"}))
    world.enqueue(spec(route=route), spec(route=route))
    assert world.read(routes.special_routes) == [route]


def test_an_enqueue_wakes_those_who_wait_for_its_queue(each_store: World) -> None:
    with closing(each_store.store.wakeups.listen(["queue:mail"])) as listener:
        each_store.add(queue="mail")
        assert listener.wait(SOON)


def test_a_failed_enqueue_wakes_nobody(each_store: World) -> None:
    each_store.add(id="mine", explicit_id=True, payload="1")
    queue = each_store.name("quiet")
    with closing(each_store.store.wakeups.listen([f"queue:{queue}"])) as listener:
        with pytest.raises(IdTaken):
            each_store.enqueue(spec(queue=queue), spec(id="mine", explicit_id=True, payload="2"))
        each_store.enqueue(spec(id="mine", explicit_id=True, payload="1", queue=queue))
        assert not listener.wait(0.02)


@pytest.mark.parametrize("awaiting", [False, True], ids=["write_list", "awrite_list"])
def test_many_small_enqueues_at_once_each_get_their_own_answer(each_store: World, awaiting: bool) -> None:
    store = each_store.store
    batches = [[spec(), spec()] for _ in range(20)]
    answers: dict[int, list[Enqueued]] = {}

    def write(i: int) -> None:
        answers[i] = store.write_list(ListOp(enqueue.enqueue_keyless, batches[i]))

    async def awrite() -> None:
        found = await asyncio.gather(*(store.awrite_list(ListOp(enqueue.enqueue_keyless, b)) for b in batches))
        answers.update(enumerate(found))

    if awaiting:
        asyncio.run(awrite())
    else:
        threads = [threading.Thread(target=write, args=[i]) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [answers[i] for i in range(20)] == [[Enqueued(s.id, True) for s in batch] for batch in batches]
    assert each_store.jobs() == 40


# -- the caller's own transaction


def test_an_enqueue_in_a_transaction_that_rolls_back_leaves_nothing_and_wakes_nobody(each_store: World) -> None:
    wanted = spec(queue=each_store.name("quiet"))
    topic = f"queue:{wanted.route.queue}"
    with closing(each_store.store.wakeups.listen([topic])) as listener, closing(each_store.connect()) as mine:
        begin(mine)
        each_store.store.within(mine, Op(lambda tx: enqueue.enqueue(tx, [wanted])))
        mine.rollback()
        assert not listener.wait(0.02)
    with pytest.raises(NotFound):
        each_store.job(wanted.id)


def test_an_enqueue_is_invisible_until_its_callers_transaction_commits(each_store: World) -> None:
    with closing(each_store.connect()) as mine:
        begin(mine)
        wanted = spec()
        each_store.store.within(mine, Op(lambda tx: enqueue.enqueue(tx, [wanted])))
        if each_store.is_on_disk:
            with pytest.raises(NotFound):
                each_store.job(wanted.id)
        mine.commit()
    assert each_store.job(wanted.id).state is JobState.READY


def test_a_failing_operation_leaves_its_callers_transaction_usable(each_store: World) -> None:
    each_store.add(id="mine", explicit_id=True, payload="1")
    with closing(each_store.connect()) as mine:
        begin(mine)
        first, second, clash = spec(), spec(), spec(id="mine", explicit_id=True, payload="2")
        within = each_store.store.within
        within(mine, Op(lambda tx: enqueue.enqueue(tx, [first])))
        with pytest.raises(IdTaken):
            within(mine, Op(lambda tx: enqueue.enqueue(tx, [clash])))
        within(mine, Op(lambda tx: enqueue.enqueue(tx, [second])))
        mine.commit()
    assert each_store.jobs() == 3


def test_a_connection_outside_a_transaction_is_refused(each_store: World) -> None:
    with closing(each_store.connect()) as mine:
        if each_store.backend == "postgres":
            mine.autocommit = True  # otherwise psycopg begins with the first statement
        with pytest.raises(NotInTransaction):
            each_store.store.within(mine, Op(lambda tx: enqueue.enqueue(tx, [spec()])))
    assert each_store.jobs() == 0


def test_a_strangers_connection_to_memory_is_told_that_it_has_no_jobs_table(ground: Any) -> None:
    """A database in memory cannot be reached by its name: only the store's own `connect` leads to it."""
    world = ground.open("memory")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as stranger:
        begin(stranger)
        with pytest.raises(SchemaMismatch):
            world.store.within(stranger, Op(lambda tx: enqueue.enqueue(tx, [spec()])))
