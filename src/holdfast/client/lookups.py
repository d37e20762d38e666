"""Reads of many at once: deliveries that start together ask for their endpoints in one query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from ..model.webhook import Signed
from ..storage.ops import endpoints
from ..storage.port import Op, Store

_Asked: TypeAlias = "list[tuple[str, asyncio.Future[Signed | None]]]"


class Lookups:
    """What is asked for in one turn of an event loop is read in the next: nothing that is answered is older."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._asked: WeakKeyDictionary[asyncio.AbstractEventLoop, _Asked] = WeakKeyDictionary()
        self._looking: set[asyncio.Task[None]] = set()

    async def get(self, endpoint_id: str) -> Signed | None:
        """One endpoint as it is now; None if it is gone."""
        loop = asyncio.get_running_loop()
        asked = self._asked.setdefault(loop, [])
        # One for each who asks: one who is cancelled leaves the others alone.
        answer: asyncio.Future[Signed | None] = loop.create_future()
        asked.append((endpoint_id, answer))
        if len(asked) == 1:
            look = loop.create_task(self._look(loop))
            self._looking.add(look)
            look.add_done_callback(self._looking.discard)
        return await answer

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        asked = self._asked.pop(loop)
        wanted = {endpoint_id for endpoint_id, _ in asked}
        try:
            found = await self._store().aread(Op(lambda tx: endpoints.signed(tx, wanted), single=True))
        except Exception as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        for endpoint_id, answer in asked:
            if not answer.done():
                answer.set_result(found.get(endpoint_id))
