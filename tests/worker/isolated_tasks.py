"""Tasks that a child process can import."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from pathlib import Path

from holdfast import App, Cancel, Context, Fail, Park, Retry, Snooze, SyncContext, Throttle, current
from holdfast.rules.retry import RetryPolicy

app = App(":memory:")
AT_ONCE = RetryPolicy(kind="none")


def tell(pipe: str, text: str) -> None:
    """A word to the test, through a named pipe."""
    Path(pipe).write_text(text)


@app.task(isolate="process")
def apart(ctx: SyncContext, numbers: list[int]) -> dict[str, int]:
    return {"pid": os.getpid(), "sum": sum(numbers), "attempt": ctx.attempt}


@app.task(isolate="process")
async def apart_async(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


def job_below() -> str:
    return current().id


@app.task(isolate="process")
def names_itself(ctx: SyncContext) -> list[str]:
    return [job_below()] if ctx is current() else []


@app.task(isolate="process")
async def names_itself_async() -> list[str]:
    return [job_below(), await asyncio.to_thread(job_below)]


@app.task(isolate="process", max_attempts=3, retry=AT_ONCE)
def says(kind: str) -> object:
    match kind:
        case "fail":
            raise Fail("no use")
        case "retry":
            raise Retry("again")
        case "snooze":
            raise Snooze(60)
        case "throttle":
            raise Throttle("slow down", after=60)
        case "park":
            raise Park("no key", reason="credentials")
        case "cancel":
            raise Cancel("not wanted")
        case "exit":
            raise SystemExit(3)
        case "unencodable":
            return object()
    raise ValueError(kind)


@app.task(isolate="process", max_attempts=2, retry=AT_ONCE)
def hangs(pipe: str) -> None:
    tell(pipe, str(os.getpid()))
    threading.Event().wait()


@app.task(isolate="process")
def waits_for_cancel(ctx: SyncContext, pipe: str) -> str:
    tell(pipe, str(os.getpid()))
    return f"cancelled {ctx.wait_cancelled(30)}"


@app.task(isolate="process")
async def waits_async(ctx: Context, pipe: str) -> None:
    tell(pipe, str(os.getpid()))
    await asyncio.Event().wait()


@app.task(retry=AT_ONCE)
async def poison() -> None:
    os._exit(9)


@app.task(retry=AT_ONCE)
def segfault() -> None:
    ctypes.string_at(0)


@app.task
async def innocent(n: int) -> int:
    return n


@app.task
def where() -> int:
    return os.getpid()


@app.task(isolate="process", max_attempts=1)
def exits_hard() -> None:
    os._exit(7)


@app.task(isolate="process", max_attempts=1)
def enqueues(ctx: SyncContext) -> None:
    ctx.enqueue(apart.job([1]))
