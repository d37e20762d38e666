"""Batches: one call for many jobs, and an outcome for each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, Cancel, Context, Fail, Item, Job, JobFailed, Retry, Snooze, SyncContext, current, tenant
from holdfast.errors import ConfigError, InvalidArguments, InvalidInput, NoCurrentJob
from holdfast.testing import drain, inline, isolated
from tests.patience import SOON

from . import batch_tasks
from .worker_kit import AT_ONCE, Shop, live


@dataclass
class Mail:
    to: str


def sending(app: App, **options: Any) -> tuple[Any, list[list[str]]]:
    """A task that takes batches of mails, and the addresses that each call got."""
    calls: list[list[str]] = []

    @app.task(**{"batch": 100, "retry": AT_ONCE, **options})
    async def send(items: list[Item[Mail]]) -> list[str | Exception]:
        calls.append([item.value.to for item in items])
        return [_answer(item) for item in items]

    return send, calls


def _answer(item: Item[Mail]) -> str | Exception:
    outcomes: dict[str, Exception] = {
        "fail": Fail("no such user"),
        "cancel": Cancel("not wanted"),
        "snooze": Snooze(60),
        "retry": Retry("again"),
        "error": ValueError("odd"),
    }
    # A snooze uses no attempt, but time.
    if item.value.to in outcomes and item.attempt == 1 and item.job.epoch == 1:
        return outcomes[item.value.to]
    return f"{item.value.to} {item.attempt}"


@live
async def test_ten_thousand_jobs_reach_their_handler_in_a_hundred_calls(shop: Shop) -> None:
    send, calls = sending(shop.app)
    await shop.app.aenqueue_many([send.job(Mail(str(n))) for n in range(10_000)])
    worker = shop.worker()
    await worker.start()
    while sum(map(len, calls)) < 10_000:
        await asyncio.sleep(0.01)
    await worker.stop()
    assert len(calls) <= 110
    assert sorted(to for call in calls for to in call) == sorted(str(n) for n in range(10_000))
    assert [(count.state, count.jobs) for count in await shop.app.jobs.acounts() if count.jobs] == [
        ("succeeded", 10_000)
    ]


@live
async def test_each_job_has_the_outcome_that_its_answer_says(shop: Shop) -> None:
    send, calls = sending(shop.app)
    names = ["a", "fail", "cancel", "snooze", "retry", "error", "b"]
    jobs = await shop.app.aenqueue_many([send.job(Mail(name)) for name in names])
    async with shop.working() as worker:
        ended = [await shop.until_ended(job) for job in jobs if job is not jobs[3]]
        assert [record.state for record in ended] == ["succeeded", "failed", "cancelled", *["succeeded"] * 3]
        assert [await jobs[at].aresult(0) for at in (0, 4, 5, 6)] == ["a 1", "retry 2", "error 2", "b 1"]
        assert (await jobs[3].astatus()).reason == "snooze"
        await shop.pass_time(61, worker)
        assert await jobs[3].aresult(SOON) == "snooze 1"
    assert calls[0] == names
    assert sorted(calls[1]) == ["error", "retry"]


@pytest.mark.parametrize("kind", ["async", "def"])
@live
async def test_a_call_that_raises_fails_all_of_its_jobs_and_each_is_retried(small_shop: Shop, kind: str) -> None:
    app, calls = small_shop.app, list[int]()

    def handle(items: list[Item[int]]) -> list[int]:
        calls.append(len(items))
        if len(calls) == 1:
            raise ConnectionError("no network")
        return [item.value + item.attempt for item in items]

    if kind == "def":
        task: Any = app.task(batch=10, retry=AT_ONCE, name="add")(handle)
    else:

        @app.task(batch=10, retry=AT_ONCE, name="add")
        async def add(items: list[Item[int]]) -> list[int]:
            return handle(items)

        task = add
    jobs = await app.aenqueue_many([task.job(n) for n in range(5)])
    async with small_shop.working():
        assert [await job.aresult(SOON) for job in jobs] == [2, 3, 4, 5, 6]
    assert calls == [5, 5]


@live
async def test_answers_that_are_not_one_for_each_are_refused(small_shop: Shop) -> None:
    @small_shop.app.task(batch=10)
    async def short(items: list[Item[int]]) -> list[int]:
        return [1]

    @small_shop.app.task(batch=10)
    def text(items: list[Item[int]]) -> Any:
        return "done"

    async with small_shop.working() as worker:
        worker.state.closing = True
        jobs = await small_shop.app.aenqueue_many([short.job(1), short.job(2), text.job(3)])
        worker.state.closing = False
        worker.outcomes.request_claim()
        for job, words in zip(jobs, ["got 2 items and returned 1 answers"] * 2 + ["returned str"], strict=True):
            record = await small_shop.until_ended(job)
            assert (record.state, record.reason) == ("failed", "bad_result")
            assert words in str(record.error)


@live
async def test_a_job_that_cannot_be_decoded_fails_alone(shop: Shop) -> None:
    send, calls = sending(shop.app)
    jobs = await shop.app.aenqueue_many([send.job(Mail(name)) for name in "abc"])
    shop.alter("update holdfast_job set payload = ? where id = ?", '{"item": 7}', jobs[1].id)
    async with shop.working():
        assert (await shop.until_ended(jobs[1])).reason == "undecodable"
        assert [await job.aresult(SOON) for job in (jobs[0], jobs[2])] == ["a 1", "c 1"]
    assert calls == [["a", "c"]]


@live
async def test_a_batch_waits_for_more_until_it_is_full_or_its_time_is_over(shop: Shop) -> None:
    send, calls = sending(shop.app, batch=3, wait=5)
    async with shop.working() as worker:
        first = await send.aenqueue(Mail("a"))
        await shop.until(first, lambda record: record.state == "running")
        second = await send.aenqueue(Mail("b"))
        await shop.until(second, lambda record: record.state == "running")
        assert calls == []
        await shop.pass_time(4.9, worker)
        assert calls == []
        await shop.pass_time(0.2, worker)
        assert [await job.aresult(SOON) for job in (first, second)] == ["a 1", "b 1"]
        full = [await send.aenqueue(Mail(name)) for name in "cde"]
        assert [await job.aresult(SOON) for job in full] == ["c 1", "d 1", "e 1"]
    assert calls == [["a", "b"], ["c", "d", "e"]]


@live
async def test_a_job_can_be_cancelled_while_its_batch_is_collected(shop: Shop) -> None:
    send, calls = sending(shop.app, wait=5)
    async with shop.working() as worker:
        jobs = [await send.aenqueue(Mail(name)) for name in "ab"]
        for job in jobs:
            await shop.until(job, lambda record: record.state == "running")
        await jobs[0].acancel()
        assert (await shop.until_ended(jobs[0])).state == "cancelled"
        await shop.pass_time(6, worker)
        assert await jobs[1].aresult(SOON) == "b 1"
    assert calls == [["b"]]


@live
async def test_a_cancelled_job_is_seen_by_the_handler_and_the_others_go_on(small_shop: Shop) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @small_shop.app.task(batch=10)
    async def watch(items: list[Item[int]]) -> list[int | Exception]:
        begun.set()
        await go.wait()
        return [Cancel("seen") if item.cancelled else item.value for item in items]

    jobs = await small_shop.app.aenqueue_many([watch.job(n) for n in range(3)])
    async with small_shop.working() as worker:
        await begun.wait()
        await jobs[1].acancel()
        while not any(run.stop.requested for run in worker.runner.runs):
            await asyncio.sleep(0)
        go.set()
        assert [(await small_shop.until_ended(job)).state for job in jobs] == ["succeeded", "cancelled", "succeeded"]


@live
async def test_a_cancelled_job_that_the_handler_ignores_is_given_up_alone(small_shop: Shop) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @small_shop.app.task(batch=10)
    async def ignore(items: list[Item[int]]) -> list[int]:
        begun.set()
        await go.wait()
        return [item.value for item in items]

    jobs = await small_shop.app.aenqueue_many([ignore.job(n) for n in range(3)])
    async with small_shop.working() as worker:
        await begun.wait()
        await jobs[1].acancel()
        while not any(run.stop.requested for run in worker.runner.runs):
            await asyncio.sleep(0)
        await small_shop.pass_time(6, worker)
        assert (await small_shop.until_ended(jobs[1])).state == "cancelled"
        assert [(await job.astatus()).state for job in (jobs[0], jobs[2])] == ["running", "running"]
        go.set()
        assert [await job.aresult(SOON) for job in (jobs[0], jobs[2])] == [0, 2]


@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.parametrize(("stop", "state"), [("timeout", "failed"), ("cancel", "cancelled"), ("shutdown", "ready")])
@live
async def test_a_call_is_stopped_when_all_of_its_jobs_are(shop: Shop, kind: str, stop: str, state: str) -> None:
    loop, begun, left = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    @shop.app.task(batch=2, timeout=60, max_attempts=1)
    async def hang(items: list[Item[int]]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    @shop.app.task(batch=2, timeout=60, max_attempts=1)
    def block(items: list[Item[int]]) -> None:
        loop.call_soon_threadsafe(begun.set)
        while not all(item.cancelled for item in items):
            threading.Event().wait(0.01)
        loop.call_soon_threadsafe(left.set)
        raise InterruptedError

    task = hang if kind == "async" else block
    worker = shop.worker()
    await worker.start()
    jobs = await shop.app.aenqueue_many([task.job(1), task.job(2)])
    await begun.wait()
    if stop == "timeout":
        await shop.pass_time(61, worker)
    elif stop == "cancel":
        for job in jobs:
            await job.acancel()
    if stop != "shutdown":
        assert {(await shop.until_ended(job)).state for job in jobs} == {state}
    await worker.stop(grace=0)
    await left.wait()
    assert {(await job.astatus()).state for job in jobs} == {state}


@live
async def test_a_worker_that_stops_hands_back_what_it_has_collected(shop: Shop) -> None:
    send, calls = sending(shop.app, wait=30)
    worker = shop.worker()
    await worker.start()
    job = await send.aenqueue(Mail("a"))
    await shop.until(job, lambda record: record.state == "running")
    await worker.stop()
    record = await job.astatus()
    assert (record.state, record.reason, calls) == ("ready", "shutdown", [])


@live
async def test_limits_dedupe_and_budgets_hold_for_each_job_of_a_batch(shop: Shop) -> None:
    app = shop.app
    app.budget("team", calls=4)
    few, few_calls = sending(app, concurrency=3, name="few")

    @app.task(batch=10, reserve={"team": {"calls": 1}})
    async def costly(items: list[Item[int]]) -> list[int]:
        return [len(items)] * len(items)

    for declaration in app.declared_limits():
        await shop.store.awrite(declaration)
    jobs = await app.aenqueue_many([few.job(Mail(str(n))) for n in range(7)])
    same = [await few.options(dedupe_key="k").aenqueue(Mail("once")) for _ in range(2)]
    paid = await app.aenqueue_many([costly.job(n) for n in range(6)])
    assert same[0].id == same[1].id
    async with shop.working():
        for job in (*jobs, same[0]):
            await shop.until_ended(job)
        sizes = [await job.aresult(SOON) for job in paid]
    assert max(map(len, few_calls)) <= 3
    assert sum(map(len, few_calls)) == 8
    assert max(sizes) <= 4


@pytest.mark.parametrize("name", ["apart", pytest.param("apart_async", marks=pytest.mark.thorough)])
@live
async def test_a_crash_in_a_child_process_fails_only_the_job_that_causes_it(shop: Shop, name: str) -> None:
    app = shop.borrow(batch_tasks.app)
    task: Any = app.tasks[name]
    jobs = await app.aenqueue_many([task.job(value) for value in ("ada", "crash", "bob")])
    async with shop.working() as worker:
        states = []
        for job in jobs:
            while not (record := await job.astatus()).state.is_terminal:
                await shop.pass_time(1, worker)
                await asyncio.sleep(0.02)
            states.append((record.state.value, record.reason))
    assert states == [("succeeded", None), ("failed", "worker_lost"), ("succeeded", None)]
    # After the crash each of them has a process of its own.
    assert [await job.aresult(0) for job in (jobs[0], jobs[2])] == ["hello ada, one of 1", "hello bob, one of 1"]


@live
async def test_a_child_process_takes_a_batch_at_once(shop: Shop) -> None:
    app = shop.borrow(batch_tasks.app)
    task: Any = app.tasks["apart"]
    jobs = await app.aenqueue_many([task.job(value) for value in ("ada", "bad", "bob")])
    shop.alter("update holdfast_job set payload = ? where id = ?", '{"item": 7}', jobs[2].id)
    async with shop.working():
        assert await jobs[0].aresult(SOON) == "hello ada, one of 2"
        with pytest.raises(JobFailed, match="no greeting for bad"):
            await jobs[1].aresult(SOON)
        assert (await shop.until_ended(jobs[2])).reason == "undecodable"


@live
async def test_jobs_enqueued_by_a_program_that_knows_nothing_of_batches_are_taken_too(shop: Shop) -> None:
    send, calls = sending(shop.app)
    other = App(shop.url, clock=shop.clock)
    other.declare("send")
    jobs: list[Job[Any]] = await other.aenqueue_many([other.tasks["send"].job(item={"to": name}) for name in "abc"])
    async with shop.working():
        assert [await send.handle(job.id).aresult(SOON) for job in jobs] == ["a 1", "b 1", "c 1"]
    other.close()
    assert calls == [["a", "b", "c"]]


@live
async def test_a_worker_that_found_nothing_has_room_for_jobs_of_every_kind(small_shop: Shop) -> None:
    send, calls = sending(small_shop.app)
    other = App(":memory:")
    other.declare("send")
    async with small_shop.working(concurrency=2) as worker:
        assert await (await send.aenqueue(Mail("a"))).aresult(SOON) == "a 1"
        # A delayed job is looked for in time only by a worker that has room.
        assert worker.runner.has_room()
        assert worker.routes.batches
        worker.state.closing = True
        plain = [other.tasks["send"].job(item={"to": str(n)}) for n in range(20)]
        jobs = [await small_shop.app._enqueuer.aone(request, "") for request in plain]
        worker.state.closing = False
        worker.outcomes.request_claim()
        # Two at a time, as the slots are: each claim must lead to the next.
        for job in jobs:
            await small_shop.until_ended(job)
    assert sum(map(len, calls)) == 21


@pytest.mark.parametrize("concurrency", [1, 2, 20])
@live
async def test_single_jobs_and_batches_share_the_slots_of_a_worker(shop: Shop, concurrency: int) -> None:
    send, calls = sending(shop.app, batch=5)
    at_once, most = 0, 0

    @shop.app.task
    async def single(n: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return n

    requests = [request for n in range(30) for request in (single.job(n), send.job(Mail(str(n))))]
    jobs = await shop.app.aenqueue_many(requests)
    async with shop.working(concurrency=concurrency):
        for job in jobs:
            assert (await shop.until_ended(job)).state == "succeeded"
    assert most <= concurrency
    assert max(map(len, calls)) <= 5


@live
async def test_a_batch_belongs_to_no_single_job(small_shop: Shop) -> None:
    app, seen = small_shop.app, list[Any]()

    @app.middleware
    async def outer(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(ctx.job.task)
        with pytest.raises(InvalidInput, match="takes batches, which have no steps"):
            await ctx.step("s", abs, 1)
        return await call()

    @app.middleware
    def inner(ctx: SyncContext, call: Callable[[], Any]) -> Any:
        with pytest.raises(InvalidInput, match="takes batches, which have no steps"):
            ctx.sleep(1)
        return call()

    @app.task
    async def child() -> None: ...

    @app.task(batch=10)
    async def tell(items: list[Item[int]]) -> list[str]:
        with pytest.raises(NoCurrentJob, match="each item has its own"):
            current()
        job = await child.aenqueue()
        seen.append((await job.astatus()).tenant)
        return [item.tenant for item in items]

    with tenant("acme"):
        mine = tell.job(1)
        jobs = [await app.aenqueue(mine), await app.aenqueue(tell.job(2), tenant="other")]
    async with small_shop.working():
        assert [await job.aresult(SOON) for job in jobs] == ["acme", "other"]
    assert seen[:2] == ["tell", ""]


def test_drained_and_inline_jobs_and_members_of_flows_are_batched_too() -> None:
    app = App(":memory:")
    calls: list[int] = []

    @app.task(batch=10, wait=5)
    def double(items: list[Item[int]]) -> list[int | Exception]:
        calls.append(len(items))
        return [ValueError("negative") if item.value < 0 else 2 * item.value for item in items]

    with isolated(app):
        with app.flow("twice") as flow:
            firsts = [flow.add(double.job(n)) for n in range(3)]
            last = flow.add(double.job(firsts[2].output))
        assert drain(app).succeeded == 4
        assert flow.result() is not None
        assert app.job(last.id, task="double").result(0) == 8
    assert calls == [3, 1]
    with inline(app):
        assert double.enqueue(4).result() == 8
        with pytest.raises(JobFailed, match="negative"):
            double.enqueue(-4).result()


def test_functions_and_options_that_cannot_be_a_batch_are_refused() -> None:
    app = App(":memory:")

    def refused(words: str, fn: Any, **options: Any) -> None:
        with pytest.raises((ConfigError, InvalidInput), match=words):
            app.task(**{"batch": 10, **options})(fn)

    def good(items: list[Item[int]]) -> list[int]:
        return []

    def two(items: list[Item[int]], more: int) -> None: ...

    def bare(items: list[int]) -> None: ...

    def one(item: Item[int]) -> None: ...

    def with_context(ctx: SyncContext, items: list[Item[int]]) -> None: ...

    def wrong(items: list[Item[int]]) -> int:
        return 1

    refused("one list of items, and resources", two)
    refused("its list is of holdfast.Item", bare)
    refused("is not a list of items", one)
    refused("has no context; each item has its own", with_context)
    refused("returns a list with an answer for each item", wrong)
    refused("batch is 1001; use 1 to 1,000", good, batch=1001)
    refused("batch", good, batch=0)
    refused("capture is not for batches", good, capture=("stdout",))
    refused("affinity and inventory are not for batches", good, affinity="model")
    refused("use up to 60 s", good, wait=61)
    refused("wait is for tasks that take batches", good, batch=None, wait=1)
    task = app.task(batch=10)(good)
    assert str(task.signature) == "(item)"
    with pytest.raises(InvalidArguments, match="expected int, got str"):
        task.enqueue("7")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="takes batches of jobs with any affinity"):
        task.options(affinity="model").enqueue(7)
    with pytest.raises(TypeError, match=r"takes batches; call good.fn"):
        task(7)
