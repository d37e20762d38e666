"""Tasks that take batches, which a child process can import."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast import App, Item, injected
from holdfast.rules.retry import RetryPolicy

app = App(":memory:")
AT_ONCE = RetryPolicy(kind="none")


class Greeting:
    text = "hello"


@app.resource
def greeting() -> Iterator[Greeting]:
    yield Greeting()


@app.task(isolate="process", batch=10, max_attempts=1, retry=AT_ONCE)
def apart(items: list[Item[str]], greeting: Greeting = injected) -> list[str | Exception]:
    return [_answer(item, greeting, len(items)) for item in items]


@app.task(isolate="process", batch=10, max_attempts=1, retry=AT_ONCE)
async def apart_async(items: list[Item[str]], greeting: Greeting = injected) -> list[str | Exception]:
    return [_answer(item, greeting, len(items)) for item in items]


def _answer(item: Item[str], greeting: Greeting, n: int) -> str | Exception:
    if item.value == "crash":
        os._exit(11)
    if item.value == "bad":
        return ValueError(f"no greeting for {item.value}")
    return f"{greeting.text} {item.value}, one of {n}"
