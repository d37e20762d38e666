"""Durable tasks that a child process can import; their store is the one that HOLDFAST_STORE names."""

from __future__ import annotations

import os

from holdfast import App, Context, SyncContext

app = App("unused.db")


@app.task(isolate="process")
def durable_apart(ctx: SyncContext) -> tuple[int, int, str]:
    first = ctx.step("pid", os.getpid)
    ctx.sleep(0.05)
    return first, first, ctx.wait_for("go", type=str)


@app.task(isolate="process")
async def durable_apart_async(ctx: Context) -> tuple[int, int, str]:
    first = await ctx.step("pid", os.getpid)
    await ctx.sleep(0.05)
    return first, first, await ctx.wait_for("go", type=str)
