"""The tasks of the simulated cluster. What a run does is told by its job's arguments and its epoch, never by chance.

They are made inside of a function: what cannot be imported never runs in a child process, of which there are none here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast.errors import JobNotSucceeded
from holdfast.storage.port import Store
from tests.chaos.ledger import Line

from .loop import LANE

SOON = holdfast.RetryPolicy(kind="fixed", initial=0.3)
QUEUES = ("default", "durable", "limited")
BUDGET = "team"


class SimulatedApp(holdfast.App):
    """One app for all nodes: the store is that of the node which asks."""

    def open(self) -> Store:
        store: Store = LANE.get().node.store
        return store


def note(mark: str, job: str, epoch: int = 0) -> None:
    node = LANE.get().node
    if not node.is_dead:
        node.world.ledger.append(Line(mark, job, epoch, 0, node.world.loop.time()))
        if mark == "S" and node.worker.lease.heartbeat.slack <= 0:
            node.world.misconduct.append(f"job {job} was begun by a worker whose lease is over by its own clock")


def make_app() -> SimulatedApp:
    app = SimulatedApp(":memory:")
    app.budget(BUDGET, tokens=12, every=4)

    @app.task(max_attempts=None, retry=SOON)
    async def work(ctx: holdfast.Context, plan: list[str], seconds: float, given: Any = None) -> str:
        note("S", ctx.id, ctx.job.epoch)
        await busy(seconds, plan)
        return await end(ctx, plan)

    @app.task(max_attempts=3, retry=SOON, timeout=1.5)
    async def mortal(ctx: holdfast.Context, plan: list[str], seconds: float) -> str:
        note("S", ctx.id, ctx.job.epoch)
        await busy(seconds, plan)
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="limited", concurrency=1)
    async def limited(ctx: holdfast.Context, plan: list[str], seconds: float) -> str:
        note("S", ctx.id, ctx.job.epoch)
        await busy(seconds, plan)
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="durable")
    async def steps(ctx: holdfast.Context, plan: list[str], names: list[str], naps: bool) -> str:
        note("S", ctx.id, ctx.job.epoch)
        for name in names:
            await ctx.step(name, one_step, name)
            if naps:
                await ctx.sleep(0.4)
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="durable")
    async def waits(ctx: holdfast.Context, plan: list[str], timeout: float | None) -> Any:
        note("S", ctx.id, ctx.job.epoch)
        await ctx.step("first", one_step, "first")
        await ctx.wait_for("go", timeout=timeout, on_timeout="resume")
        await ctx.wait_for("go", timeout=timeout, on_timeout="resume")
        await ctx.step("last", one_step, "last")
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="durable")
    async def parent(ctx: holdfast.Context, plan: list[str], children: list[list[str]]) -> str:
        note("S", ctx.id, ctx.job.epoch)
        made = [await ctx.enqueue(work.job(child, 0.2)) for child in children]
        for child in made:
            try:
                await ctx.wait_for(child)
            except JobNotSucceeded:
                continue
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="durable")
    async def spender(ctx: holdfast.Context, plan: list[str], tokens: int) -> str:
        note("S", ctx.id, ctx.job.epoch)
        async with ctx.reserve(BUDGET, tokens=tokens) as held:
            await busy(0.3, plan)
            await held.settle(tokens=tokens - 1)
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="durable", reserve={BUDGET: {"tokens": 5}})
    async def admitted(ctx: holdfast.Context, plan: list[str]) -> str:
        note("S", ctx.id, ctx.job.epoch)
        await busy(0.3, plan)
        await ctx.settle(BUDGET, tokens=4)
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON)
    async def grows(ctx: holdfast.Context, plan: list[str], n: int) -> str:
        """Of a flow only: adds members to it."""
        note("S", ctx.id, ctx.job.epoch)
        async with ctx.flow() as flow:
            first = flow.add(work.job([], 0.1))
            for _ in range(n):
                flow.add(work.job([], 0.1), after=[first.ended])
        return await end(ctx, plan)

    @app.task(max_attempts=None, retry=SOON, queue="batched", batch=3, wait=0.2)
    async def batched(items: list[holdfast.Item[list[str]]]) -> list[str | Exception]:
        for item in items:
            note("S", item.id, item.job.epoch)
        await busy(0.2, [word for item in items for word in item.value])
        return [await answer(item) for item in items]

    @app.destination("there", retry=SOON, ordered=True, max_age=None)
    async def there(events: list[holdfast.model.OutboxEvent]) -> None:
        world = LANE.get().node.world
        await asyncio.sleep(0.2)
        if world.nemesis.happens(world.nemesis.weather.errors):
            raise ConnectionError("nobody there")
        for event in events:
            note("D", event.job)

    return app


async def one_step(ctx: holdfast.Context, name: str) -> str:
    await asyncio.sleep(0.1)
    note(f"step:{name}", ctx.id, ctx.job.epoch)
    return name


async def busy(seconds: float, plan: list[str]) -> None:
    """Take so long. One that is deaf goes on when it is told to end."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if "deaf" not in plan:
            raise
        await asyncio.sleep(2 * seconds)


async def answer(item: holdfast.Item[list[str]]) -> str | Exception:
    try:
        return await end(item, item.value)
    except Exception as planned:
        return planned


async def end(ctx: holdfast.Context | holdfast.Item[Any], plan: list[str]) -> str:
    """As the plan says for this run; the runs after it all succeed, so that everything ends some day."""
    nth = (ctx.job.epoch - 1) // 2
    match plan[nth] if nth < len(plan) else "ok":
        case "raise":
            raise ValueError("as planned")
        case "retry":
            raise holdfast.Retry("as planned", after=0.2)
        case "snooze":
            raise holdfast.Snooze(0.5)
        case "throttle":
            raise holdfast.Throttle("as planned", after=0.6)
        case "fail":
            note("E", ctx.id, ctx.job.epoch)
            raise holdfast.Fail("as planned")
        case "block":
            LANE.get().node.block(3.0)
            await asyncio.sleep(0)
        case "poison":
            LANE.get().node.crash()
            await asyncio.get_running_loop().create_future()
    note("E", ctx.id, ctx.job.epoch)
    return "done"


PLANS = ("ok", "raise", "retry", "snooze", "throttle", "fail", "block", "poison", "deaf")
