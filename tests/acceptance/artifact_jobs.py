"""Tasks that leave large things behind; their store is the one that HOLDFAST_STORE names."""

from __future__ import annotations

import random

import holdfast
from holdfast.rules.retry import RetryPolicy

app = holdfast.App("unused.db")
SIZE = 3_000_000


def content(seed: int) -> bytes:
    return random.Random(seed).randbytes(SIZE)


@app.task(queue="artifacts", max_attempts=None, retry=RetryPolicy(kind="none"))
async def stores(ctx: holdfast.Context, seed: int) -> int:
    await ctx.artifact("small", f"of {seed}")
    return (await ctx.artifact("large", content(seed), "application/x-random")).size


@app.task(queue="artifacts", max_attempts=None, retry=RetryPolicy(kind="none"))
def stores_on_thread(ctx: holdfast.SyncContext, seed: int) -> int:
    ctx.artifact("small", f"of {seed}")
    return ctx.artifact("large", content(seed), "application/x-random").size
