"""Two hundred who look: what the store is asked and what is held in memory do not grow with them."""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.clock import SYSTEM_CLOCK
from tests.patience import SOON

from .web_kit import served

FEW, MANY = 8, 190
"""Together not more than the 200 seats of a server, which may not have noticed yet that the few are gone."""
PAGES = ("/jobs", "/jobs?state=failed", "/jobs?state=running", "/jobs?state=ready")


@dataclass
class Asked:
    """How often the store is asked something."""

    count: int = 0

    def counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return method(*args, **kwargs)

        return counted


@pytest.fixture
def asked(app: holdfast.App, monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked, store = Asked(), app.open()
    for name in ("read", "aread"):
        monkeypatch.setattr(store, name, asked.counting(getattr(store, name)))
    return asked


def test_many_viewers_cost_the_store_no_more_than_a_few(app: holdfast.App, asked: Asked) -> None:
    few, many = rates(app, asked, (FEW, MANY), seconds=3.0)
    assert many.heard == MANY
    # Viewers who asked for themselves would cost 25 times as much; a machine that stands still for a while does not.
    assert many.queries <= 4 * few.queries + 5


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_many_viewers_for_long_leave_store_and_memory_as_they_were(app: holdfast.App, asked: Asked) -> None:
    few, many = rates(app, asked, (FEW, MANY), seconds=30.0)
    assert many.heard == MANY
    assert many.queries <= max(1.5 * few.queries, few.queries + 5)
    assert many.grown < 8 * 1024 * 1024


@dataclass
class Rate:
    queries: float
    """A second."""
    heard: int
    """Viewers who were sent something."""
    grown: int
    """Bytes of memory from the first third of the time to its end."""


def rates(app: holdfast.App, asked: Asked, viewers: tuple[int, ...], seconds: float) -> list[Rate]:
    with served(app, auth="off") as address, changing(app):
        return [asyncio.run(rate(address, asked, number, seconds)) for number in viewers]


async def rate(address: str, asked: Asked, viewers: int, seconds: float) -> Rate:
    """What so many viewers cost once all of them look."""
    heard = [0] * viewers
    looking = [asyncio.create_task(look(address, PAGES[n % len(PAGES)], heard, n)) for n in range(viewers)]
    async with asyncio.timeout(SOON):
        while not all(heard):
            await asyncio.sleep(0.05)
    began, before, memory = SYSTEM_CLOCK.monotonic(), asked.count, 0
    for third in range(3):
        await asyncio.sleep(seconds / 3)
        memory = memory if third else held()
    queries = (asked.count - before) / (SYSTEM_CLOCK.monotonic() - began)
    for task in looking:
        task.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    return Rate(queries, sum(1 for count in heard if count), held() - memory)


async def look(address: str, page: str, heard: list[int], n: int) -> None:
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        path = page.replace("?", "%3F").replace("=", "%3D")
        writer.write(f"GET /live?page={path} HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n".encode())
        async for line in reader:
            heard[n] += line.startswith(b"event: part")
    finally:
        writer.close()


class changing:
    """Jobs come and go, so that pages have something to tell."""

    def __init__(self, app: holdfast.App) -> None:
        self._app = app
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            self._app.enqueue(self._app.tasks["double"].job(1))


def held() -> int:
    """Bytes of memory in use, as the system sees it."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
