"""The hub behind open pages: one refresher for all who look, and nothing while nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from holdfast.errors import StorageUnavailable
from holdfast.web.live.hub import Hub
from tests.patience import SOON

FAST = 200.0


class Board:
    """Something to look at, that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.value = "0"
        self.away = False
        self.was_read = asyncio.Event()

    async def render(self) -> Mapping[str, str]:
        self.reads += 1
        self.was_read.set()
        if self.away:
            raise StorageUnavailable("the store is away")
        return {"value": self.value, "fixed": "<p>"}

    async def next_read(self) -> None:
        self.was_read.clear()
        await asyncio.wait_for(self.was_read.wait(), SOON)


@asynccontextmanager
async def looking(hub: Hub, board: Board, key: str = "page") -> AsyncIterator[Any]:
    async with aclosing(cast("Any", hub.watch(key, board.render))) as events:
        yield events


async def heard(events: Any) -> bytes:
    return await asyncio.wait_for(anext(events), SOON)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.live.hub._SECOND", 0.02)


def test_a_viewer_gets_every_part_first_and_then_what_changed() -> None:
    async def run() -> None:
        hub, board = Hub(refreshes=FAST), Board()
        async with looking(hub, board) as events:
            assert {b'"value"' in await heard(events), b'"value"' in await heard(events)} == {True, False}
            board.value = "1"
            assert b'"html": "1"' in await heard(events)

    asyncio.run(run())


def test_many_who_look_at_one_page_cost_one_read_of_it() -> None:
    async def run() -> None:
        hub, board = Hub(refreshes=FAST), Board()

        async def look() -> None:
            async with looking(hub, board) as events:
                await heard(events)
                await board.next_read()

        viewers = [asyncio.create_task(look()) for _ in range(100)]
        await asyncio.gather(*viewers)
        # Not each its own, though a slow machine takes more than one turn to serve them.
        assert board.reads < 20

    asyncio.run(run())


def test_many_different_pages_share_the_allowance() -> None:
    async def run() -> None:
        hub, boards = Hub(refreshes=50), [Board() for _ in range(20)]

        async def look(n: int) -> None:
            async with looking(hub, boards[n], f"page {n}") as events:
                while True:
                    await anext(events)

        began = asyncio.get_running_loop().time()
        viewers = [asyncio.create_task(look(n)) for n in range(20)]
        async with asyncio.timeout(SOON):
            while min(board.reads for board in boards) < 2:
                await asyncio.sleep(0.005)
        passed = asyncio.get_running_loop().time() - began
        for viewer in viewers:
            viewer.cancel()
        await asyncio.gather(*viewers, return_exceptions=True)
        reads = [board.reads for board in boards]
        assert sum(reads) <= 50 * passed + 1
        # And each has its turn.
        assert max(reads) - min(reads) <= 1

    asyncio.run(run())


def test_a_slow_viewer_gets_the_newest_and_nothing_in_between() -> None:
    async def run() -> None:
        hub, board = Hub(refreshes=FAST), Board()
        async with looking(hub, board) as events:
            await heard(events)
            await heard(events)
            for n in range(1, 6):
                board.value = str(n)
                await board.next_read()
            await board.next_read()
            assert b'"html": "5"' in await heard(events)

    asyncio.run(run())


def test_the_refresher_survives_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        hub, board = Hub(refreshes=FAST), Board()
        async with looking(hub, board) as events:
            await heard(events)
            await heard(events)
            board.away, board.value = True, "after"
            for _ in range(4):
                await board.next_read()
            board.away = False
            assert b'"after"' in await heard(events)

    asyncio.run(run())
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_nothing_is_read_when_nobody_looks() -> None:
    async def run() -> None:
        hub, board = Hub(refreshes=FAST), Board()
        async with looking(hub, board) as events:
            await heard(events)
        assert hub.viewers == 0
        while not hub.is_resting:
            await asyncio.sleep(0.001)
        async with looking(hub, board) as events:
            await heard(events)
            assert not hub.is_resting

    asyncio.run(run())


def test_a_new_page_does_not_wait_for_one_that_was_just_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.live.hub._SECOND", 60.0)

    async def run() -> None:
        hub, old, new = Hub(refreshes=FAST), Board(), Board()
        async with looking(hub, old) as events:
            await heard(events)
            async with looking(hub, new, "another") as others:
                await heard(others)

    asyncio.run(run())
