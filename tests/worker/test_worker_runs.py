"""What becomes of a run, by the way its handler ends."""

from __future__ import annotations

import gc
import json
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from holdfast import Cancel, Fail, Park, Retry, RetryPolicy, Snooze, SyncContext, Throttle
from holdfast.worker.running.runs import Run
from tests.patience import SOON

from . import isolated_tasks
from .worker_kit import AT_ONCE, Shop, live


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    id: UUID
    total: Decimal
    at: datetime
    colour: Colour


ORDER = Order(UUID(int=7), Decimal("9.90"), datetime(2026, 1, 2, 3, 4, tzinfo=UTC), Colour.RED)


@live
async def test_async_def_and_isolated_tasks_run_and_record_their_results(shop: Shop) -> None:
    app = shop.borrow(isolated_tasks.app)

    @app.task
    async def twice(n: int) -> int:
        return 2 * n

    @app.task
    def thrice(n: int) -> int:
        return 3 * n

    async with shop.working():
        two, three = await twice.aenqueue(21), await thrice.aenqueue(2)
        apart = await app.aenqueue(isolated_tasks.apart.job([1, 2, 3]))
        loud = await app.aenqueue(isolated_tasks.apart_async.job("hé"))
        assert await two.aresult(SOON) == 42
        assert await three.aresult(SOON) == 6
        answer = await apart.aresult(SOON)
        assert answer["sum"] == 6
        assert answer["attempt"] == 1
        assert answer["pid"] != os.getpid()
        assert await loud.aresult(SOON) == "HÉ"
    record = await two.astatus()
    assert (record.state, record.attempts, record.owner) == ("succeeded", 1, None)
    assert await app.jobs.aattempts(two.id) == []


@live
async def test_typed_arguments_arrive_typed_and_results_come_back_typed(small_shop: Shop) -> None:
    app = small_shop.app
    seen: list[object] = []

    @app.task
    async def keep(order: Order, *extra: int, blob: bytes = b"") -> Order:
        seen.append((order, extra, blob))
        return order

    @app.task
    def keep_sync(ctx: SyncContext, order: Order) -> Order:
        seen.append(ctx.id)
        return order

    async with small_shop.working():
        assert await (await keep.aenqueue(ORDER, 1, 2, blob=b"\x00\xff")).aresult(SOON) == ORDER
        job = await keep_sync.aenqueue(ORDER)
        assert await job.aresult(SOON) == ORDER
    assert seen == [(ORDER, (1, 2), b"\x00\xff"), job.id]


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@live
async def test_whatever_a_handler_raises_is_a_failure_of_its_job_alone(shop: Shop) -> None:
    app = shop.app
    errors: dict[str, type[BaseException]] = {
        e.__name__: e for e in (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Untold)
    }

    @app.task(max_attempts=1)
    async def here(name: str) -> None:
        raise errors[name]("ach\udcff\x00")

    @app.task(max_attempts=1)
    def on_thread(name: str) -> None:
        raise errors[name]("ach\udcff\x00")

    @app.task
    async def neighbour() -> str:
        return "well"

    async with shop.working():
        jobs = [await task.aenqueue(name) for task in (here, on_thread) for name in errors]
        for job in jobs:
            record = await shop.until_ended(job)
            assert (record.state, record.reason) == ("failed", "exhausted")
            assert json.loads(record.error or "")["type"]
        assert await (await neighbour.aenqueue()).aresult(SOON) == "well"


@live
async def test_a_result_that_cannot_be_stored_fails_the_job_without_another_run(small_shop: Shop) -> None:
    app = small_shop.app
    runs: list[str] = []

    @app.task(retry=AT_ONCE)
    async def here() -> object:
        runs.append("here")
        return object()

    @app.task(retry=AT_ONCE)
    def on_thread() -> float:
        runs.append("on thread")
        return float("nan")

    @app.task
    async def large() -> str:
        return "x" * 300_000

    large.signature.limit = 300_000
    async with small_shop.working():
        for task in (here, on_thread, large):
            record = await small_shop.until_ended(await task.aenqueue())
            assert (record.state, record.reason, record.attempts) == ("failed", "bad_result", 1)
    assert runs == ["here", "on thread"]


@live
async def test_a_corrupt_payload_fails_its_own_job_while_its_neighbours_run(shop: Shop) -> None:
    app = shop.app
    payloads = ["{broken", '{"n": "text"}', "{}", "[]", ""]

    @app.task
    async def here(n: int) -> int:
        return n

    @app.task
    def on_thread(n: int) -> int:
        return n

    bad = [await task.aenqueue(1) for task in (here, on_thread) for _ in payloads]
    good = [await here.aenqueue(2), await on_thread.aenqueue(3)]
    for job, payload in zip(bad, payloads * 2, strict=True):
        shop.alter("update holdfast_job set payload = ? where id = ?", payload, job.id)
    async with shop.working():
        assert [await job.aresult(SOON) for job in good] == [2, 3]
        for job in bad:
            record = await shop.until_ended(job)
            assert (record.state, record.reason, record.attempts) == ("failed", "undecodable", 1)


@live
@pytest.mark.parametrize("isolated", [False, True])
async def test_a_job_of_newer_code_is_tried_again_by_a_worker_that_lacks_an_argument(
    shop: Shop, isolated: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if isolated:
        task: Any = shop.borrow(isolated_tasks.app).tasks["apart_async"]
        given = {"text": "a"}
    else:

        @shop.app.task(retry=RetryPolicy(kind="fixed", initial=2, jitter="none"))
        async def task(n: int) -> int:
            return n

        given = {"n": 1}
    job = await shop.app.aenqueue(task.job(**given))
    last = await shop.app.aenqueue(task.options(max_attempts=1).job(**given))
    newer = json.dumps({**given, "lang": "en"})
    shop.alter("update holdfast_job set payload = ?", newer)
    with caplog.at_level(logging.WARNING, "holdfast"):
        async with shop.working():
            assert (await shop.until_again(job, "retry")).attempts == 1
            assert (await shop.until_ended(last)).reason == "undecodable"
            text = (await shop.app.jobs.aexplain(job.id)).reasons[0].text
    assert (
        "after a failure (attempt 1 of 5): Undecodable: " in text and "the stored job has " in text and "'lang'" in text
    )
    first, second = sorted(record.getMessage() for record in caplog.records if record.name == "holdfast.jobs")
    assert "retrying in " in first + second and "(undecodable, 1 of 1)" in first + second


def raises(kind: str) -> None:
    match kind:
        case "fail":
            raise Fail("no use")
        case "retry":
            raise Retry("later", after=60)
        case "snooze":
            raise Snooze(60)
        case "throttle":
            raise Throttle("slow down", after=60)
        case "park":
            raise Park("no key", reason="credentials")
        case "cancel":
            raise Cancel("not wanted")


# state, reason, seconds until due, attempts that remain counted, what the history says
SIGNALS: dict[str, tuple[str, str, int | None, int, str]] = {
    "fail": ("failed", "permanent", None, 1, "permanent"),
    "retry": ("ready", "retry", 60, 1, "failed"),
    "snooze": ("ready", "snooze", 60, 0, "snoozed"),
    "throttle": ("ready", "throttle", 60, 0, "throttled"),
    "park": ("blocked", "credentials", None, 0, "parked"),
    "cancel": ("cancelled", "not wanted", None, 1, "cancelled"),
}


@live
async def test_each_signal_costs_what_it_says(shop: Shop) -> None:
    app = shop.app

    @app.task(max_attempts=2)
    async def here(kind: str) -> None:
        raises(kind)

    @app.task(max_attempts=2)
    def on_thread(kind: str) -> None:
        raises(kind)

    # Each in a queue of its own: a throttled job cools the queue it came from.
    queues = {f"{task.name}-{kind}": (task, kind) for task in (here, on_thread) for kind in SIGNALS}
    async with shop.working(queues=tuple(queues)):
        for queue, (task, kind) in queues.items():
            state, reason, delay, attempts, history = SIGNALS[kind]
            job = await task.options(queue=queue).aenqueue(kind)
            record = await shop.until(job, lambda r, reason=reason: r.reason == reason)
            assert (record.state, record.attempts, record.owner) == (state, attempts, None), queue
            if delay is not None:
                assert record.not_before == shop.clock.now() + delay * 1_000_000
            assert [a.outcome for a in await app.jobs.aattempts(job.id)] == [history], queue


@live
async def test_signals_raised_in_a_child_process_mean_the_same(small_shop: Shop) -> None:
    app = small_shop.borrow(isolated_tasks.app)
    async with small_shop.working(queues=("default", "fail", "snooze", "throttle", "park", "cancel")):
        for kind in ("fail", "snooze", "throttle", "park", "cancel"):
            state, reason, _, attempts, history = SIGNALS[kind]
            job = await app.aenqueue(isolated_tasks.says.options(queue=kind).job(kind))
            record = await small_shop.until(job, lambda r, reason=reason: r.reason == reason)
            assert (record.state, record.attempts) == (state, attempts)
            assert [a.outcome for a in await app.jobs.aattempts(job.id)] == [history]
        ends = {"retry": ("exhausted", 3), "exit": ("exhausted", 3), "unencodable": ("bad_result", 1)}
        for kind, end in ends.items():
            record = await small_shop.until_ended(await app.aenqueue(isolated_tasks.says.job(kind)))
            assert (record.state, (record.reason, record.attempts)) == ("failed", end)


@live
async def test_a_run_that_has_ended_leaves_nothing_to_the_garbage_collector(shop: Shop) -> None:
    """A cycle in each run took a seventh of the time of a drain."""

    @shop.app.task(timeout=60)
    async def task() -> None: ...

    @shop.app.task(timeout=60)
    def blocking() -> None: ...

    gc.collect()
    gc.disable()
    try:
        async with shop.working():
            jobs = [await enqueue() for _ in range(20) for enqueue in (task.aenqueue, blocking.aenqueue)]
            for job in jobs:
                await job.aresult(SOON)
            kept = sum(type(found) is Run for found in gc.get_objects())
    finally:
        gc.enable()
    # The last ones may still be on their way out.
    assert kept < 10
