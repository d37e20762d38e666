"""Oban on Postgres, which needs Python 3.12: one queue of 100."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import psycopg
from oban import Oban, job
from oban.schema import install_sql

from . import kit

# The worker looks for the task in the module of this name.
sys.modules.setdefault("benchmarks.peers.oban_postgres", sys.modules[__name__])
__name__, real = "benchmarks.peers.oban_postgres", __name__
count = kit.Counter(
    "select count(*) from oban_jobs where state in ('available', 'executing', 'scheduled', 'retryable')"
)


@job(queue="default")
async def nothing(number: int, text: str) -> None:
    await kit.ahandle(number)


async def serve() -> None:
    pool = await Oban.create_pool(dsn=kit.PLACE, min_size=2, max_size=10)
    swift = {"interval": 2.0, "rescue_after": float(kit.LEASE)} if kit.WORK else {}
    async with Oban(pool=pool, queues={"default": 100}, lifeline=swift):
        await asyncio.Event().wait()


class ObanPeer(kit.AsyncPeer):
    oban: Any

    def reset(self) -> None:
        kit.empty_postgres()
        with psycopg.connect(kit.PLACE, autocommit=True) as connection:
            connection.execute(install_sql())

    async def aopen(self) -> None:
        self.oban = Oban(pool=await Oban.create_pool(dsn=kit.PLACE, min_size=1, max_size=4))

    async def aput(self, number: int) -> None:
        await self.oban.enqueue(nothing.new(number, kit.TEXT))

    async def aput_many(self, numbers: Sequence[int]) -> None:
        await self.oban.enqueue_many([nothing.new(number, kit.TEXT) for number in numbers])

    def unfinished(self) -> int:
        return count()

    def work(self) -> None:
        asyncio.run(serve())


if real == "__main__":
    kit.run(ObanPeer())
