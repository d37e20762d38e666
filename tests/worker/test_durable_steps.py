"""Durable steps: recorded once, answered from the journal ever after, in tasks of every colour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from holdfast import Context, Fail, RetryPolicy, SyncContext, current, fixed
from holdfast.errors import InvalidInput, StepDiverged, StepFailed
from holdfast.model.jobs import JobRecord
from holdfast.model.steps import StepAttributes
from holdfast.storage.ops import steps
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live


@dataclass
class Row:
    id: int
    name: str


class Ledger:
    """What was really done."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def does(self, what: Any) -> Any:
        self.done.append(what)
        return what

    async def adoes(self, what: Any) -> Any:
        return self.does(what)


def keys(shop: Shop, job: Any) -> list[str]:
    return [step.key for step in shop.app.jobs.steps(job.id)]


@live
async def test_a_recorded_step_is_not_done_again_by_the_next_attempt(shop: Shop) -> None:
    ledger = Ledger()

    @shop.app.task(retry=AT_ONCE)
    async def works(ctx: Context) -> str:
        first = await ctx.step("first", ledger.adoes, "one")
        second = await ctx.step("second", ledger.does, "two")
        if ctx.attempt < 3:
            raise RuntimeError("not yet")
        return f"{first} {second}"

    @shop.app.task(retry=AT_ONCE)
    def works_too(ctx: SyncContext) -> str:
        first = ctx.step("first", ledger.does, "three")
        if ctx.attempt < 3:
            raise RuntimeError("not yet")
        return f"{first}"

    async with shop.working():
        jobs = [await works.aenqueue(), await works_too.aenqueue()]
        assert [await job.aresult(SOON) for job in jobs] == ["one two", "three"]
    assert sorted(ledger.done) == ["one", "three", "two"]
    assert keys(shop, jobs[0]) == ["step:first#1", "step:second#1"]


@live
async def test_values_have_the_type_that_the_function_says_in_every_run(shop: Shop) -> None:
    def load() -> list[Row]:
        return [Row(1, "a")]

    seen: list[Any] = []

    @shop.app.task(retry=AT_ONCE)
    async def reads(ctx: Context) -> None:
        seen.append(await ctx.step("typed", load))
        seen.append(await ctx.step("untyped", lambda: (1, 2)))
        if ctx.attempt == 1:
            raise RuntimeError("again")

    async with shop.working():
        await (await reads.aenqueue()).aresult(SOON)
    # What JSON makes of a value is seen in the first run already, not only in one that replays it.
    assert seen == [[Row(1, "a")], [1, 2]] * 2


@live
async def test_a_step_may_take_the_context_and_its_calls_are_numbered_apart(shop: Shop) -> None:
    ledger = Ledger()

    async def inner(ctx: Context, word: str) -> str:
        return str(await ctx.step("x", ledger.adoes, f"inner {word}"))

    @shop.app.task(retry=AT_ONCE)
    async def nests(ctx: Context) -> list[str]:
        deep = await ctx.step("outer", inner, "word")
        flat = await ctx.step("x", ledger.adoes, "flat")
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [deep, flat]

    async with shop.working():
        job = await nests.aenqueue()
        assert await job.aresult(SOON) == ["inner word", "flat"]
    assert ledger.done == ["inner word", "flat"]
    assert sorted(keys(shop, job)) == ["step:outer#1", "step:outer#1/x#1", "step:x#1"]


@live
async def test_a_plain_function_of_an_async_task_does_not_block_its_loop(shop: Shop) -> None:
    def where() -> str:
        return threading.current_thread().name

    @shop.app.task
    async def finds(ctx: Context) -> str:
        return await ctx.step("where", where)

    async with shop.working():
        assert await (await finds.aenqueue()).aresult(SOON) != threading.current_thread().name


# -- replay that does not match


async def _fails(shop: Shop, task: Any) -> JobRecord:
    async with shop.working():
        job = await task.aenqueue()
        return await shop.until_ended(job)


@live
async def test_another_function_under_a_recorded_name_is_a_divergence_even_if_it_is_swallowed(shop: Shop) -> None:
    ledger, met = Ledger(), []

    def before() -> int:
        return 1

    def after() -> int:
        ledger.done.append("after")
        return 2

    @shop.app.task(retry=AT_ONCE)
    async def changed(ctx: Context) -> int:
        if ctx.attempt == 1:
            await ctx.step("load", before)
            raise RuntimeError("deploy now")
        for _ in range(2):
            try:
                await ctx.step("load", after)
            except StepDiverged as error:
                met.append(error.key)
        return 0

    record = await _fails(shop, changed)
    assert (record.state, record.reason) == ("failed", "diverged")
    assert "recorded for before and is asked for after" in (record.error or "")
    assert met == ["step:load#1"] * 2
    assert ledger.done == []


@live
async def test_another_kind_in_the_place_of_a_step_of_that_name_is_a_divergence(shop: Shop) -> None:
    @shop.app.task(retry=AT_ONCE)
    async def changed(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.step("approval", lambda: True)
            raise RuntimeError("deploy now")
        await ctx.wait_for("approval")

    record = await _fails(shop, changed)
    assert (record.state, record.reason) == ("failed", "diverged")


@live
async def test_another_task_in_the_place_of_an_enqueue_is_a_divergence(shop: Shop) -> None:
    @shop.app.task
    async def one() -> None: ...

    @shop.app.task
    async def two() -> None: ...

    @shop.app.task(retry=AT_ONCE)
    async def changed(ctx: Context) -> None:
        await ctx.enqueue((one if ctx.attempt == 1 else two).job())
        raise RuntimeError("deploy now")

    record = await _fails(shop, changed)
    assert (record.state, record.reason) == ("failed", "diverged")


@live
async def test_steps_added_by_a_deploy_run_and_those_recorded_stay(shop: Shop) -> None:
    ledger = Ledger()

    @shop.app.task(retry=AT_ONCE)
    async def grows(ctx: Context) -> list[str]:
        found = [await ctx.step("a", ledger.adoes, "a")]
        if ctx.attempt > 1:
            found.append(await ctx.step("new", ledger.adoes, "new"))
        found.append(await ctx.step("b", ledger.adoes, "b"))
        if ctx.attempt == 1:
            raise RuntimeError("deploy now")
        return found

    async with shop.working():
        assert await (await grows.aenqueue()).aresult(SOON) == ["a", "new", "b"]
    assert ledger.done == ["a", "b", "new"]


@live
async def test_a_name_used_for_two_functions_in_one_run_is_refused(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def confuses(ctx: Context) -> None:
        await ctx.step("load", len, "abc")
        await ctx.step("load", abs, -1)

    record = await _fails(shop, confuses)
    assert record.state == "failed"
    assert "stands for len and now for abs" in (record.error or "")


@live
async def test_a_name_used_again_for_the_same_function_is_another_step(shop: Shop) -> None:
    ledger = Ledger()

    @shop.app.task(retry=AT_ONCE)
    async def repeats(ctx: Context) -> list[int]:
        found = [await ctx.step("poll", ledger.adoes, n) for n in range(3)]
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return found

    async with shop.working():
        job = await repeats.aenqueue()
        assert await job.aresult(SOON) == [0, 1, 2]
    assert ledger.done == [0, 1, 2]
    assert keys(shop, job) == ["step:poll#1", "step:poll#2", "step:poll#3"]


@live
async def test_steps_of_one_name_in_tasks_without_an_order_are_refused(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def races(ctx: Context) -> None:
        async def branch(n: int) -> None:
            await ctx.step("same", abs, n)

        async with asyncio.TaskGroup() as group:
            group.create_task(branch(1))
            group.create_task(branch(2))

    record = await _fails(shop, races)
    assert record.state == "failed"
    assert "in no order that a replay could repeat" in (shop.app.jobs.attempts(record.id)[0].error or "")


@live
async def test_tasks_that_follow_each_other_may_repeat_a_name(shop: Shop) -> None:
    ledger = Ledger()

    @shop.app.task(retry=AT_ONCE)
    async def follows(ctx: Context) -> list[int]:
        async def one(n: int) -> int:
            return (await ctx.gather(ctx.step("same", ledger.adoes, n)))[0] + await ctx.step("same", ledger.adoes, n)

        found = [await asyncio.create_task(one(n)) for n in range(3)]
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return found

    async with shop.working():
        assert await (await follows.aenqueue()).aresult(SOON) == [0, 2, 4]
    assert ledger.done == [0, 0, 1, 1, 2, 2]


@live
async def test_a_wait_lets_the_steps_of_other_tasks_end_before_the_job_is_suspended(shop: Shop) -> None:
    ledger, begun = Ledger(), asyncio.Event()

    @shop.app.task
    async def agent(ctx: Context) -> str:
        async def pay() -> str:
            ledger.does("pay begins")
            begun.set()
            for _ in range(20):
                await shop.app.jobs.aget(ctx.id)
            return str(ledger.does("paid"))

        async def ask(name: str) -> bool:
            async def tool() -> bool:
                return await ctx.wait_for(name, type=bool)

            await begun.wait()
            return await ctx.step(f"tool {name}", tool)

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ask("one")),
                group.create_task(ask("two")),
                group.create_task(ctx.step("pay", pay)),
            ]
        return str([task.result() for task in tasks])

    async with shop.working():
        job = await agent.aenqueue()
        for _ in range(2):
            await shop.until(job, lambda record: record.state == "suspended")
            (waiting,) = shop.app.signals.pending(job.id)
            await shop.app.asignal(job.id, waiting.name, True)
        assert await job.aresult(SOON) == "[True, True, 'paid']"
    assert ledger.done == ["pay begins", "paid"]


# -- attributes


@live
async def test_a_step_is_recorded_with_the_attributes_of_its_last_try(shop: Shop) -> None:
    tries: list[int] = []

    @shop.app.task(max_attempts=1)
    async def asks(ctx: Context) -> None:
        async def inner() -> int:
            ctx.describe(tool="inner")
            return 1

        def on_a_thread() -> None:
            current().describe(output_tokens=12)

        async def model() -> str:
            tries.append(1)
            if len(tries) == 1:
                ctx.describe(cost=1)
                raise OSError("not now")
            ctx.describe(model="m", input_tokens=310)
            await asyncio.to_thread(on_a_thread)
            await ctx.step("inner", inner)
            return "yes"

        await ctx.options(max_attempts=2, retry=AT_ONCE).step("think", model)

    async with shop.working():
        job = await asks.aenqueue()
        await job.aresult(SOON)
    said = {step.key: step.attributes for step in shop.app.jobs.steps(job.id)}
    assert said == {
        "step:think#1": StepAttributes(model="m", input_tokens=310, output_tokens=12),
        "step:think#1/inner#1": StepAttributes(tool="inner"),
    }


@live
@pytest.mark.parametrize("given", [{"input_tokens": -1}, {"output_tokens": 1.5}, {"cost": -1}, {"model": ""}])
async def test_wrong_attributes_and_those_of_no_step_are_refused(shop: Shop, given: dict[str, Any]) -> None:
    @shop.app.task(max_attempts=1)
    async def asks(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match="there is no step to describe"):
            ctx.describe(model="m")
        with pytest.raises(InvalidInput, match="model|tokens|cost"):
            ctx.describe(**given)

    async with shop.working():
        await (await asks.aenqueue()).aresult(SOON)


# -- steps that fail


@live
async def test_a_step_is_tried_by_its_own_policy_without_costing_the_job_an_attempt(shop: Shop) -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(len(tries))
        if len(tries) % 3:
            raise OSError("not now")
        return "ok"

    @shop.app.task(max_attempts=1)
    async def insists(ctx: Context) -> str:
        return await ctx.options(max_attempts=3, retry=AT_ONCE).step("flaky", flaky)

    @shop.app.task(max_attempts=1)
    def insists_too(ctx: SyncContext) -> str:
        return ctx.options(retry=fixed(0, attempts=3)).step("flaky", flaky)

    async with shop.working():
        for task in (insists, insists_too):
            job = await task.aenqueue()
            assert await job.aresult(SOON) == "ok"
            assert [step.attempts for step in shop.app.jobs.steps(job.id)] == [3]


def _declines() -> str:
    raise ValueError("no money")


@live
async def test_a_failure_that_the_handler_answered_stays_what_it_was(shop: Shop) -> None:
    ledger, found = Ledger(), []

    def charge() -> str:
        ledger.done.append("charge")
        if ledger.done.count("charge") == 1:
            raise ValueError("no money")
        return "paid"

    @shop.app.task
    async def pays(ctx: Context) -> str:
        try:
            return await ctx.step("charge", charge)
        except StepFailed as failed:
            found.append((failed.type, failed.message))
        await ctx.step("tell", ledger.adoes, "told them")
        await ctx.sleep(60)
        return "unpaid"

    async with shop.working() as worker:
        job = await pays.aenqueue()
        await shop.until_again(job, "sleep")
        await shop.pass_time(61, worker)
        assert await job.aresult(SOON) == "unpaid"
    assert ledger.done == ["charge", "told them"]
    assert found == [("ValueError", "no money")] * 2


@live
async def test_a_failure_that_fails_the_run_is_tried_again_by_the_next(shop: Shop) -> None:
    tries: list[int] = []

    def charge(attempt: int) -> str:
        tries.append(attempt)
        if attempt == 1:
            raise ValueError("no money")
        return "paid"

    @shop.app.task(retry=AT_ONCE)
    async def pays(ctx: Context) -> str:
        try:
            return await ctx.step("charge", charge, ctx.attempt)
        finally:
            # A durable call after the failure, on the way out.
            await ctx.step("log", abs, -1)

    async with shop.working():
        job = await pays.aenqueue()
        assert await job.aresult(SOON) == "paid"
    assert tries == [1, 2]
    (attempt,) = shop.app.jobs.attempts(job.id)
    assert '"type": "ValueError"' in (attempt.error or "")


@live
async def test_what_a_step_raised_decides_what_becomes_of_the_job(shop: Shop) -> None:
    @shop.app.task(no_retry_on=(ValueError,))
    async def permanent(ctx: Context) -> None:
        await ctx.step("a", _declines)

    def gives_up() -> None:
        raise Fail("no use")

    @shop.app.task
    def on_purpose(ctx: SyncContext) -> None:
        ctx.step("a", gives_up)

    async with shop.working():
        ended = [await shop.until_ended(await task.aenqueue()) for task in (permanent, on_purpose)]
    assert [(job.state, job.reason) for job in ended] == [("failed", "permanent")] * 2
    assert "no money" in (ended[0].error or "") and "no use" in (ended[1].error or "")


@pytest.mark.parametrize("returns", [lambda: object(), lambda: "x" * 300_000, lambda: float("nan")])
def test_a_value_that_cannot_be_kept_fails_the_job_at_once(small_shop: Shop, returns: Callable[[], Any]) -> None:
    ledger = Ledger()
    small_shop.app.config = replace(small_shop.app.config, max_value_bytes=300_000)

    def acts() -> Any:
        ledger.done.append("acted")
        return returns()

    @small_shop.app.task(retry=AT_ONCE)
    async def keeps(ctx: Context) -> None:
        await ctx.step("acts", acts)

    job = keeps.enqueue()
    small_shop.app.drain()
    assert (job.status().state, job.status().reason) == ("failed", "bad_result")
    # What was done cannot be undone, and must not be repeated.
    assert ledger.done == ["acted"]


def test_a_value_that_is_not_what_its_function_says_fails_the_job_at_once(small_shop: Shop) -> None:
    def lies() -> int:
        return "text"  # type: ignore[return-value]

    @small_shop.app.task
    def keeps(ctx: SyncContext) -> None:
        ctx.step("lies", lies)

    job = keeps.enqueue()
    small_shop.app.drain()
    assert (job.status().state, job.status().reason) == ("failed", "bad_result")


# -- enqueue


@live
async def test_what_a_job_enqueues_is_enqueued_once_however_often_it_runs(shop: Shop) -> None:
    children: list[str] = []

    @shop.app.task
    async def child(n: int) -> int:
        return n

    @shop.app.task(retry=AT_ONCE)
    async def parent(ctx: Context) -> list[bool]:
        made = [await ctx.enqueue(child.job(n)) for n in range(2)]
        children.extend(job.id for job in made)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [job.created for job in made]

    @shop.app.task(retry=AT_ONCE)
    def parent_too(ctx: SyncContext) -> None:
        children.append(ctx.enqueue(child.job(9)).id)
        if ctx.attempt == 1:
            raise RuntimeError("again")

    async with shop.working():
        assert await (await parent.aenqueue()).aresult(SOON) == [True, True]
        await (await parent_too.aenqueue()).aresult(SOON)
    assert len(children) == 6 and len(set(children)) == 3
    assert sum(count.jobs for count in shop.app.jobs.counts()) == 5


# -- gather


@live
async def test_gathered_branches_keep_their_own_answers_whichever_comes_first(shop: Shop) -> None:
    ledger, last = Ledger(), asyncio.Event()

    @shop.app.task(retry=AT_ONCE)
    async def maps(ctx: Context) -> list[str]:
        async def branch(word: str, *, waits: bool) -> str:
            page = await ctx.step("fetch", ledger.adoes, word)
            if waits and ctx.attempt == 1:
                await last.wait()
            saved = await ctx.step("save", ledger.adoes, page.upper())
            last.set()
            return str(saved)

        found = await ctx.gather(branch("slow", waits=True), branch("fast", waits=False))
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return list(found)

    async with shop.working():
        assert await (await maps.aenqueue()).aresult(SOON) == ["SLOW", "FAST"]
    assert sorted(ledger.done) == ["FAST", "SLOW", "fast", "slow"]


@live
async def test_steps_made_at_once_and_gathered_are_recorded_each(shop: Shop) -> None:
    @shop.app.task
    async def doubles(ctx: Context) -> tuple[int, ...]:
        return await ctx.gather(*(ctx.step("double", lambda n: 2 * n, n) for n in range(4)))

    @shop.app.task
    def doubles_too(ctx: SyncContext) -> list[int]:
        def one(n: int) -> Callable[[], int]:
            return lambda: ctx.step("double", lambda: 2 * n)

        return list(ctx.gather(*(one(n) for n in range(4))))

    async with shop.working():
        for task in (doubles, doubles_too):
            job = await task.aenqueue()
            assert list(await job.aresult(SOON)) == [0, 2, 4, 6]
            assert len(keys(shop, job)) == 4


@live
async def test_gather_brings_every_branch_to_its_end_before_it_fails(shop: Shop) -> None:
    @shop.app.task(max_attempts=1)
    async def partly(ctx: Context) -> None:
        async def slow() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            await ctx.step("slow", abs, -1)

        await ctx.gather(ctx.step("bad", _declines), slow())

    async with shop.working():
        job = await partly.aenqueue()
        record = await shop.until_ended(job)
    assert '"ValueError"' in (record.error or "")
    assert "step:gather#1.2/slow#1" in keys(shop, job)


# -- what it costs


@live
async def test_a_plain_job_never_touches_a_journal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a plain job has no journal")

    monkeypatch.setattr(steps, "read_journal", refuse)

    @shop.app.task(retry=AT_ONCE)
    async def plain(ctx: Context) -> bool:
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return ctx._durable is None

    @shop.app.task
    async def first(ctx: Context) -> int:
        return await ctx.step("one", abs, -1)

    async with shop.working():
        assert await (await plain.aenqueue()).aresult(SOON) is True
        # Nor is there anything to read in the first run ever.
        assert await (await first.aenqueue()).aresult(SOON) == 1


def test_a_job_can_make_only_so_many_durable_calls(small_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.durable.journal.MOST_CALLS", 3)

    @small_shop.app.task(max_attempts=1)
    async def endless(ctx: Context) -> None:
        while True:
            await ctx.step("again", abs, -1)

    job = endless.enqueue()
    small_shop.app.drain()
    assert "can make 3 durable calls" in (job.status().error or "")


def test_inline_steps_run_and_nothing_is_recorded(small_shop: Shop) -> None:
    @small_shop.app.task
    def durable(ctx: SyncContext) -> int:
        ctx.sleep(3600)
        return ctx.options(max_attempts=2, retry=RetryPolicy(kind="none")).step("one", abs, -1)

    with small_shop.app.inline():
        assert durable.enqueue().result() == 1
