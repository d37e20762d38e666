"""Tasks for real worker processes. Each run leaves lines in a ledger outside the store."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

import holdfast
from tests.chaos import ledger

app = holdfast.App()


def note(mark: str, ctx: holdfast.Context | holdfast.SyncContext) -> None:
    ledger.append(os.environ["TEST_LEDGER"], mark, ctx.id, ctx.job.epoch)


@app.task(max_attempts=None)
async def entry(ctx: holdfast.Context, seconds: float) -> str:
    """Start, some work, end."""
    note("S", ctx)
    await asyncio.sleep(seconds)
    note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None, queue="threads")
def entry_on_thread(ctx: holdfast.SyncContext, seconds: float) -> str:
    note("S", ctx)
    time.sleep(seconds)
    note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None, queue="batches", batch=50, wait=0.2)
async def entries(items: list[holdfast.Item[float]]) -> list[str]:
    """Start, some work for all at once, end."""
    for item in items:
        ledger.append(os.environ["TEST_LEDGER"], "S", item.id, item.job.epoch)
    await asyncio.sleep(max(item.value for item in items))
    for item in items:
        ledger.append(os.environ["TEST_LEDGER"], "E", item.id, item.job.epoch)
    return [item.fence for item in items]


@app.task(max_attempts=20, retry=holdfast.RetryPolicy(kind="fixed", initial=0.05), queue="poison")
async def poison(ctx: holdfast.Context, how: str) -> None:
    """Takes its process down, in one of the ways that real code does."""
    note("S", ctx)
    await asyncio.sleep(0.1)
    match how:
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "oom":
            os.kill(os.getpid(), signal.SIGKILL)


@app.task(max_attempts=20, queue="poison")
async def neighbour(ctx: holdfast.Context, seconds: float) -> None:
    note("S", ctx)
    await asyncio.sleep(seconds)
    note("E", ctx)


@app.task(max_attempts=None, queue="limited")
async def mark(ctx: holdfast.Context) -> None:
    note("S", ctx)
    await asyncio.sleep(0.002)
    note("E", ctx)


@app.task(max_attempts=None, retry=holdfast.RetryPolicy(kind="fixed", initial=0.01), queue="limited")
async def call_out(ctx: holdfast.Context) -> None:
    """Calls a destination that is down while a file beside the ledger says so; `hang` in it means no answer at all."""
    note("S", ctx)
    switch = Path(f"{os.environ['TEST_LEDGER']}.down")
    while (how := switch.read_text() if switch.exists() else "") == "hang":
        await asyncio.sleep(0.05)
    note("E", ctx)
    if how:
        raise ConnectionError(how)


STEPS = 10


async def one_step(ctx: holdfast.Context, n: int) -> int:
    note(f"step{n}", ctx)
    await asyncio.sleep(0.005)
    return n


def one_step_on_thread(ctx: holdfast.SyncContext, n: int) -> int:
    note(f"step{n}", ctx)
    time.sleep(0.005)
    return n


@app.task(max_attempts=None, queue="durable")
async def ten_steps(ctx: holdfast.Context) -> int:
    return sum([await ctx.step(f"step{n}", one_step, n) for n in range(STEPS)])


@app.task(max_attempts=None, queue="durable")
def ten_steps_on_thread(ctx: holdfast.SyncContext) -> int:
    return sum([ctx.step(f"step{n}", one_step_on_thread, n) for n in range(STEPS)])


@app.task(max_attempts=None, queue="budgets")
async def spend_in_pairs(ctx: holdfast.Context, pairs: int) -> None:
    """Reserve, use less than that, settle; again and again."""
    for _ in range(pairs):
        async with ctx.reserve("team", tokens=7, usd=0.07) as held:
            await asyncio.sleep(0.001)
            await held.settle(tokens=3, usd=0.03)


@app.task(max_attempts=None, queue="budgets", reserve={"team": {"tokens": 7}})
async def spend_as_admitted(ctx: holdfast.Context) -> None:
    """Admitted with a reservation, settled once."""
    await asyncio.sleep(0.001)
    await ctx.settle("team", tokens=3, usd=0.03)


FRAME_RATE = 2_000


@app.task(max_attempts=None, retry=holdfast.RetryPolicy(kind="none"), queue="streams")
async def narrate(ctx: holdfast.Context, frames: int) -> int:
    """Says so many things, 2,000 in a second, from the beginning in each attempt. The first is killed on its way."""
    note("S", ctx)
    begun = time.monotonic()
    for n in range(frames):
        if ctx.attempt == 1 and n == frames * 9 // 10:
            await asyncio.Event().wait()
        if (early := begun + n / FRAME_RATE - time.monotonic()) > 0:
            await asyncio.sleep(early)
        await ctx.emit(f"{ctx.attempt} {n}")
        if n % 10 == 0:
            await ctx.emit(n, kind="tick", best_effort=True)
    note("E", ctx)
    return ctx.attempt
