"""The work of a storm: every kind of job, each noting what it does in a ledger outside the store.

Run as a program it becomes the nursery's zygote, and its tasks are those of `__main__`: a suspect then runs alone in
its worker, as it does wherever tasks cannot be imported. A child of its own would take half a second to start.
"""

from __future__ import annotations

import asyncio
import os
import time

import holdfast
from tests.chaos.storm import notes

app = holdfast.App()
FRAMES = 4
STEPS = 3


@app.task(max_attempts=None)
async def plain(ctx: holdfast.Context, seconds: float) -> str:
    notes.note("S", ctx)
    await asyncio.sleep(seconds)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
def on_thread(ctx: holdfast.SyncContext, seconds: float) -> str:
    notes.note("S", ctx)
    time.sleep(seconds)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None, concurrency=6)
async def limited(ctx: holdfast.Context, seconds: float) -> str:
    """Only so many at once in the whole fleet: places of the dead must become free."""
    notes.note("S", ctx)
    await asyncio.sleep(seconds)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
async def flaky(ctx: holdfast.Context, seconds: float) -> str:
    notes.note("S", ctx)
    await asyncio.sleep(seconds)
    notes.note("E", ctx)
    if ctx.attempt == 1:
        raise holdfast.Retry("the first time it never works", after=0.05)
    return ctx.fence


@app.task(max_attempts=None)
async def member(ctx: holdfast.Context, seconds: float, given: tuple[str, ...] = ()) -> str:
    """Of a flow: it has what those before it have returned."""
    notes.note("S", ctx)
    await asyncio.sleep(seconds)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
async def narrate(ctx: holdfast.Context, seconds: float) -> str:
    """Says a few things, from the beginning in each run."""
    notes.note("S", ctx)
    with notes.refusals("frame", ctx):
        for n in range(FRAMES):
            await ctx.emit(f"{ctx.job.epoch} {n}")
            await asyncio.sleep(seconds / FRAMES)
        await ctx.flush()
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
def narrate_on_thread(ctx: holdfast.SyncContext, seconds: float) -> str:
    """A thread cannot be stopped: after a freeze it goes on to speak, and is not heard."""
    notes.note("S", ctx)
    with notes.refusals("frame", ctx):
        for n in range(FRAMES):
            ctx.emit(f"{ctx.job.epoch} {n}")
            ctx.flush()
            time.sleep(seconds / FRAMES)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
async def in_steps(ctx: holdfast.Context, seconds: float) -> str:
    """Steps, and a pause between them in which nobody holds it."""
    notes.note("S", ctx)
    with notes.refusals("step", ctx):
        for n in range(STEPS):
            await ctx.step(f"s{n}", one_step, n, seconds / STEPS)
        await ctx.sleep(0.05)
        await ctx.step("last", one_step, STEPS, 0.0)
    notes.note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None)
def in_steps_on_thread(ctx: holdfast.SyncContext, seconds: float) -> str:
    notes.note("S", ctx)
    with notes.refusals("step", ctx):
        for n in range(STEPS):
            ctx.step(f"s{n}", one_step_on_thread, n, seconds / STEPS)
    notes.note("E", ctx)
    return ctx.fence


async def one_step(ctx: holdfast.Context, n: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    notes.note("step:last" if n == STEPS else f"step:s{n}", ctx)
    return n


def one_step_on_thread(ctx: holdfast.SyncContext, n: int, seconds: float) -> int:
    time.sleep(seconds)
    notes.note(f"step:s{n}", ctx)
    return n


if __name__ == "__main__":
    from tests.chaos.storm.zygote import serve

    os._exit(serve(app))
