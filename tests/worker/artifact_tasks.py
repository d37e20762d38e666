"""Tasks with artifacts that a child process can import; their store is the one that HOLDFAST_STORE names."""

from __future__ import annotations

from holdfast import App, Context, SyncContext

app = App("unused.db")
LARGE = bytes(range(256)) * 3_000


@app.task(isolate="process")
def stores_apart(ctx: SyncContext) -> list[int]:
    return [ctx.artifact("small", "text").size, ctx.artifact("large", LARGE).size]


@app.task(isolate="process")
async def stores_apart_async(ctx: Context) -> list[int]:
    return [(await ctx.artifact("small", "text")).size, (await ctx.artifact("large", LARGE)).size]
