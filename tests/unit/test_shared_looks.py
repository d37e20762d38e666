"""Readers at one place share a look at the store, but never one that began before they asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.client.streams import SharedLooks
from holdfast.errors import NotFound
from holdfast.model.streams import Cursor, FramePage

EMPTY = FramePage(False, Cursor(), 0, ())


class Store:
    """Looks end when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.end = asyncio.Event()

    async def look(self) -> FramePage:
        self.begun += 1
        await self.end.wait()
        return EMPTY


async def _turns(n: int = 3) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def test_those_who_ask_at_once_share_a_look_and_those_at_another_place_do_not() -> None:
    async def main() -> None:
        looks, store = SharedLooks(), Store()
        asking: list[Any] = [asyncio.create_task(looks.look("here", store.look)) for _ in range(5)]
        asking.append(asyncio.create_task(looks.look("there", store.look)))
        await _turns()
        assert store.begun == 2
        store.end.set()
        assert await asyncio.gather(*asking) == [EMPTY] * 6

    asyncio.run(main())


def test_who_comes_when_a_look_has_begun_gets_a_new_one() -> None:
    async def main() -> None:
        looks, store = SharedLooks(), Store()
        early = asyncio.create_task(looks.look("here", store.look))
        await _turns()
        late = asyncio.create_task(looks.look("here", store.look))
        await _turns()
        assert store.begun == 2
        store.end.set()
        await asyncio.gather(early, late)

    asyncio.run(main())


def test_a_reader_that_goes_away_does_not_take_the_look_from_the_others() -> None:
    async def main() -> None:
        looks, store = SharedLooks(), Store()
        first, second = (asyncio.create_task(looks.look("here", store.look)) for _ in range(2))
        await _turns()
        first.cancel()
        await _turns()
        store.end.set()
        assert await second == EMPTY
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(main())


def test_each_is_told_what_went_wrong() -> None:
    async def fails() -> FramePage:
        raise NotFound("job", "nobody")

    async def main() -> None:
        looks = SharedLooks()
        found = await asyncio.gather(*(looks.look("here", fails) for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in found] == [NotFound] * 3

    asyncio.run(main())
