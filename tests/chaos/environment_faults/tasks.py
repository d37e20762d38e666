"""What the workers of these tests run. Each run leaves lines in a ledger outside the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import holdfast
from tests.acceptance.jobs import note

app = holdfast.App()


@app.task(max_attempts=None, retry=holdfast.RetryPolicy(kind="fixed", initial=0.01))
async def entry(ctx: holdfast.Context, seconds: float, padding: str = "") -> str:
    """Start, some work, end. The padding is there to take up space."""
    note("S", ctx)
    await asyncio.sleep(seconds)
    note("E", ctx)
    return ctx.fence


@app.task(max_attempts=None, retry=holdfast.RetryPolicy(kind="fixed", initial=0.01))
async def in_steps(ctx: holdfast.Context, steps: int) -> int:
    """A durable job: each step is recorded, and done once."""
    note("S", ctx)

    async def one(n: int) -> int:
        note(f"step:s{n}", ctx)
        await asyncio.sleep(0.005)
        return n

    done = sum([await ctx.step(f"s{n}", one, n) for n in range(steps)])
    note("E", ctx)
    return done


@contextmanager
def producer(store: str, **settings: object) -> Iterator[holdfast.App]:
    """The same tasks for somebody who enqueues: an app of its own on a store."""
    it = holdfast.App(store, **settings)
    for name, task in app.tasks.items():
        assert task.fn is not None
        own = task.task_options
        it.task(name=name, queue=own.queue, max_attempts=own.max_attempts, retry=own.retry)(task.fn)
    try:
        yield it
    finally:
        it.close()
