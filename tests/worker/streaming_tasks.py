"""Tasks with something to say that a child process can import; their store is the one that HOLDFAST_STORE names."""

from __future__ import annotations

import logging

from holdfast import App, Context, SyncContext

app = App("unused.db")


@app.task(isolate="process", capture=("stdout", "logs"))
def speaks_apart(ctx: SyncContext) -> str:
    ctx.emit("one")
    print("printed")
    logging.getLogger("shop").warning("logged")
    ctx.progress(percent=50, stage="apart")
    ctx.summarize({"where": "apart"})
    return "said"


@app.task(isolate="process", max_attempts=1)
async def speaks_apart_async(ctx: Context) -> None:
    await ctx.emit({"n": 1})
    await ctx.flush()
    await ctx.emit("last words")
    raise RuntimeError("failed")
