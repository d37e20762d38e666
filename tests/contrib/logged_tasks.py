"""Tasks that log, also from a child process; their lines go to the file that LINES names."""

from __future__ import annotations

import asyncio
import logging
import os
import threading

import holdfast
from holdfast.telemetry import JobLogFilter, JsonFormatter

log = logging.getLogger("tests.logged")
app = holdfast.App("unused.db")

if "LINES" in os.environ:
    handler = logging.FileHandler(os.environ["LINES"])
    handler.addFilter(JobLogFilter())
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel("INFO")


@app.task(queue="mail")
async def on_the_loop() -> None:
    await asyncio.to_thread(log.info, "hello")


@app.task(queue="mail")
def on_a_thread() -> None:
    log.info("hello")


@app.task(queue="mail", isolate="process")
def in_a_child(ctx: holdfast.SyncContext) -> None:
    ctx.step("say", log.info, "hello")


@app.task(queue="mail", isolate="process")
async def in_a_child_async() -> None:
    log.info("hello")


@app.task(queue="mail", batch=10)
def in_a_batch(items: list[holdfast.Item[int]]) -> None:
    threading.Thread(target=log.info, args=("hello",)).start()
    log.info("hello")
