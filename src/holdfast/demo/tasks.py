"""The demo's tasks. Each writes what it has done into a ledger outside the store, against which the store is checked.

A worker runs them by `holdfast worker holdfast.demo.tasks:app`, with HOLDFAST_STORE and HOLDFAST_DEMO_LEDGER set.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ..app import App
from ..context import Context, SyncContext
from ..rules.retry import RetryPolicy
from . import ledger

MAIL: Final = "demo-mail"
MEDIA: Final = "demo-media"
REPORTS: Final = "demo-reports"
QUEUES: Final = (MAIL, MEDIA, REPORTS)

_SOON: Final = RetryPolicy(kind="fixed", initial=0.2, jitter="none")

app: Final = App()


@app.task(name="demo.welcome", queue=MAIL)
async def welcome(ctx: Context, user: int) -> int:
    """Quick, on the event loop."""
    await asyncio.sleep(0.002)
    ledger.write(ctx.id)
    return user


@app.task(name="demo.resize", queue=MEDIA)
def resize(ctx: SyncContext, picture: str) -> str:
    """Blocking, so it gets a thread."""
    time.sleep(0.003)
    ledger.write(ctx.id)
    return f"{picture} at 640x480"


@app.task(name="demo.render", queue=MEDIA)
async def render(ctx: Context, page: int) -> int:
    """Long enough to be running when the worker is killed."""
    await asyncio.sleep(0.2)
    ledger.write(ctx.id)
    return page


@app.task(name="demo.remind", queue=REPORTS)
async def remind(ctx: Context, day: int) -> int:
    """Enqueued with a delay."""
    ledger.write(ctx.id)
    return day


@app.task(name="demo.flaky", queue=REPORTS, retry=_SOON)
async def flaky(ctx: Context, failures: int) -> int:
    """Fails so many times, then succeeds."""
    if ctx.attempt <= failures:
        raise ConnectionError(f"the server hung up on attempt {ctx.attempt}")
    ledger.write(ctx.id)
    return ctx.attempt


@app.task(name="demo.doomed", queue=REPORTS, max_attempts=3, retry=_SOON)
async def doomed() -> None:
    """Never succeeds."""
    raise ValueError("this address does not exist")


@app.task(name="demo.endless", queue=MEDIA)
async def endless(ctx: Context) -> None:
    """Runs until it is cancelled."""
    await asyncio.sleep(3600)
    ledger.write(ctx.id)


@app.task(name="demo.victim", queue=MEDIA)
async def victim(ctx: Context) -> int:
    """Its first run lasts until the worker's process is killed."""
    if ctx.attempt == 1:
        await asyncio.sleep(3600)
    ledger.write(ctx.id)
    return ctx.attempt
