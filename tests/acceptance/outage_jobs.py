"""Jobs that are under way while the store is away."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import holdfast

app = holdfast.App("unused.db")


@app.task
async def waits(ctx: holdfast.Context, release: str) -> str:
    """Do nothing with the store."""
    while not Path(release).exists():
        await asyncio.sleep(0.05)
    return "waited"


@app.task
def says(ctx: holdfast.SyncContext, release: str) -> str:
    """Write to the job's stream all the while, which waits for the store."""
    n = 0
    while not Path(release).exists():
        n += 1
        ctx.progress(0.5, f"turn {n}")
        time.sleep(0.05)
    return "said"


@app.task(retry=holdfast.RetryPolicy(kind="fixed", initial=1, jitter="none"), max_attempts=100)
async def steps(ctx: holdfast.Context, release: str) -> str:
    """Record steps all the while, which fail without the store."""
    n = 0
    while not Path(release).exists():
        n += 1
        await ctx.step(f"step {n}", abs, -n)
        await asyncio.sleep(0.05)
    return "stepped"
