"""Tasks inside middleware of both colours, for every way to run them. Their store is the one of HOLDFAST_STORE."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from holdfast import App, Context, Fail, SyncContext, current
from holdfast.rules.retry import RetryPolicy

app = App("unused.db")
local = threading.local()
outer_says: ContextVar[str] = ContextVar("outer_says", default="")
inner_says: ContextVar[str] = ContextVar("inner_says", default="")


@app.middleware
def on_the_thread(ctx: SyncContext, call: Callable[[], Any]) -> Any:
    local.tenant = ctx.tenant
    outer_says.set(f"{ctx.job.task} {ctx.attempt}")
    try:
        return {**call(), "outer": os.getpid(), "thread": threading.get_ident()}
    finally:
        del local.tenant


@app.middleware
async def on_the_loop(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    if ctx.tenant == "blocked":
        raise Fail("not for you")
    inner_says.set(await ctx.step("stamp", str.upper, ctx.job.queue))
    return {**await call(), "inner": os.getpid()}


@app.middleware
def innermost(ctx: SyncContext, call: Callable[[], Any]) -> Any:
    local.innermost = ctx.step("stamp", len, ctx.job.task)
    return call()


def what_it_sees() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "handler_thread": threading.get_ident(),
        "tenant": getattr(local, "tenant", None),
        "innermost": getattr(local, "innermost", None),
        "outer_says": outer_says.get(),
        "inner_says": inner_says.get(),
        "current": f"{current().job.task} {type(current()).__name__}",
    }


@app.task
def on_thread() -> dict[str, Any]:
    return what_it_sees()


@app.task
async def on_loop() -> dict[str, Any]:
    return what_it_sees()


@app.task(isolate="process")
def apart(ctx: SyncContext) -> dict[str, Any]:
    return what_it_sees() | {"stamp": ctx.step("stamp", len, "ab")}


@app.task(isolate="process")
async def apart_async(ctx: Context) -> dict[str, Any]:
    return what_it_sees() | {"stamp": await ctx.step("stamp", len, "ab")}


@app.task(isolate="process", max_attempts=1, retry=RetryPolicy(kind="none"))
def waits(ctx: SyncContext, pipe: str) -> dict[str, Any]:
    Path(pipe).write_text("begun")
    return {"saved": ctx.wait_cancelled(30)}


@app.task(isolate="process")
async def waits_for_signal(ctx: Context) -> dict[str, Any]:
    return {"signal": await ctx.wait_for("go", type=int)}
