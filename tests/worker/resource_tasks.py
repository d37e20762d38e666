"""Resources and tasks that a child process can import. They write what happens into a file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import App, Context, SyncContext
from holdfast.rules.retry import RetryPolicy

LOG = "HOLDFAST_TEST_LOG"
AT_ONCE = RetryPolicy(kind="none")


def note(line: str) -> None:
    with open(os.environ[LOG], "a") as log:
        log.write(f"{line}\n")


@contextmanager
def lifespan(_: App) -> Iterator[None]:
    note("lifespan begins")
    yield
    note("lifespan ends")


app = App(":memory:", lifespan=lifespan)


class Pool:
    pass


class Session:
    pass


class Client:
    def __init__(self, session: Session) -> None:
        self.session = session


@app.resource(scope="worker")
async def pool() -> AsyncIterator[Pool]:
    note("pool opens")
    yield Pool()
    await asyncio.sleep(0)
    note("pool closes")


@app.resource
def session(pool: Pool) -> Iterator[Session]:
    note("session opens")
    try:
        yield Session()
    finally:
        note("session closes")


@app.resource
async def client(session: Session) -> AsyncIterator[Client]:
    note("client opens")
    try:
        yield Client(session)
    finally:
        await asyncio.sleep(0)
        note("client closes")


@app.task(isolate="process", retry=AT_ONCE, max_attempts=1, timeout=60)
def apart(ctx: SyncContext, end: str, pipe: str, client: Client) -> int:
    if end == "waits":
        Path(pipe).write_text("begun")
        time.sleep(600)  # Looks at nothing: only an exception ends it in time.
    if end == "fails":
        raise ValueError(end)
    return ctx.attempt


@app.task(isolate="process", retry=AT_ONCE, max_attempts=1, timeout=60)
async def apart_async(ctx: Context, end: str, pipe: str, client: Client) -> int:
    if end == "waits":
        Path(pipe).write_text("begun")
        await asyncio.Event().wait()
    if end == "fails":
        raise ValueError(end)
    return ctx.attempt
