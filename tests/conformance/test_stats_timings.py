"""Every operation of a store is timed in its process, by name and outcome, in whatever way it is called."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import closing
from typing import Any

import pytest

from holdfast.errors import NotFound, StorageUnavailable
from holdfast.model.stats import OPERATION_BOUNDS, OperationStats
from holdfast.storage.ops.jobs import actions, enqueue, queries
from holdfast.storage.port import ListOp, Op, Tx

from .racing import all_at_once, open_transaction
from .world import World, spec


def timings(world: World) -> dict[tuple[str, str], OperationStats]:
    return {(one.operation, one.outcome): one for one in world.store.timings.read()}


def counts(world: World) -> dict[tuple[str, str], int]:
    return {key: one.count for key, one in timings(world).items()}


def grown(world: World, before: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """What was counted since, other than by the test itself."""
    return {key: count - before.get(key, 0) for key, count in counts(world).items() if count > before.get(key, 0)}


def test_an_operation_is_counted_by_its_name_in_every_way_of_calling(world: World) -> None:
    before = counts(world)
    (job,) = world.way(Op(lambda tx: enqueue.enqueue(tx, [spec()])))
    world.way(Op(lambda tx: actions.run_now(tx, job.id)))
    world.way(Op(queries.clock))
    names = ("enqueue.enqueue", "actions.run_now", "queries.clock")
    assert grown(world, before) == {(name, "ok"): 1 for name in names}


def test_both_colours_reads_lists_and_the_callers_transaction_are_timed(each_store: World) -> None:
    store, before = each_store.store, counts(each_store)

    async def awaited() -> None:
        await store.awrite(Op(queries.clock, name="awrite"))
        await store.aread(Op(queries.clock, name="aread"))
        await store.awrite_list(ListOp(enqueue.enqueue_keyless, [spec()], "awrite_list"))
        with closing(each_store.connect()) as connection:
            connection.execute("begin")
            await store.awithin(connection, Op(queries.clock, name="awithin"))
            connection.rollback()

    store.write(Op(queries.clock, name="write"))
    store.read(Op(queries.clock, name="read"))
    store.write_list(ListOp(enqueue.enqueue_keyless, [spec()], "write_list"))
    with open_transaction(each_store) as within:
        within(Op(queries.clock, name="within"))
    asyncio.run(awaited())
    ways = ("write", "read", "write_list", "within")
    assert grown(each_store, before) == {(f"{colour}{way}", "ok"): 1 for colour in ("", "a") for way in ways}


def test_the_duration_is_counted_in_its_bucket_and_shown_in_sum_percentiles_and_maximum(each_store: World) -> None:
    each_store.store.read(Op(queries.clock, name="look"))
    one = timings(each_store)["look", "ok"]
    assert (one.count, sum(one.buckets), len(one.buckets)) == (1, 1, len(OPERATION_BOUNDS) + 1)
    assert 0 < one.sum == one.mean == one.p50 == one.p99 == one.max
    for _ in range(999):
        each_store.store.read(Op(queries.clock, name="look"))
    one = timings(each_store)["look", "ok"]
    assert one.count == sum(one.buckets) == 1000
    assert 0 < one.p50 <= one.p95 <= one.p99 <= one.max <= one.sum


async def fail(tx: Tx) -> None:
    raise ZeroDivisionError


def test_a_refusal_is_an_answer_and_a_failure_of_the_store_is_an_error(each_store: World) -> None:
    before = counts(each_store)
    with pytest.raises(NotFound):
        each_store.store.write(Op(lambda tx: actions.retry(tx, "nobody")))

    with pytest.raises(ZeroDivisionError):
        each_store.store.write(Op(fail))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(each_store.store.awrite(Op(fail)))
    assert grown(each_store, before) == {("actions.retry", "ok"): 1, ("test_stats_timings.fail", "error"): 2}


@pytest.mark.parametrize("backend", ["file", "postgres"])
def test_an_operation_that_never_ran_is_an_error_under_the_name_of_its_caller(ground: Any, backend: str) -> None:
    world = ground.open(backend)
    world.store.close()
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            world.store.read(Op(lambda tx: queries.clock(tx)))
    name = "test_stats_timings.test_an_operation_that_never_ran_is_an_error_under_the_name_of_its_caller"
    assert counts(world)[name, "error"] == 2


def test_a_cancelled_call_is_not_counted(each_store: World) -> None:
    before = counts(each_store)

    async def run() -> None:
        call = asyncio.create_task(each_store.store.awrite(Op(queries.clock, name="cancelled")))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(run())
    assert grown(each_store, before) == {}


def test_operations_of_many_threads_are_all_counted(each_store: World) -> None:
    store, done = each_store.store, threading.Event()

    def work() -> None:
        for _ in range(300):
            store.read(Op(queries.clock, name="busy"))

    def read() -> None:
        while not done.is_set():
            store.timings.read()

    reader = threading.Thread(target=read)
    reader.start()
    all_at_once([work] * 8)
    done.set()
    reader.join()
    assert counts(each_store)["busy", "ok"] == 2400


def test_a_forked_child_begins_at_zero(each_store: World) -> None:
    each_store.store.read(Op(queries.clock, name="parent"))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, repr(each_store.store.timings.read()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1000) == b"[]"
    os.close(read)
    os.close(write)
    assert counts(each_store)["parent", "ok"] == 1
