"""PgQueuer on Postgres, by asyncpg: a pool of 8 connections, batches of 200."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries

from . import kit

count = kit.Counter("select count(*) from pgqueuer")


async def install() -> None:
    connection = await asyncpg.connect(kit.PLACE)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def serve() -> None:
    pool = await asyncpg.create_pool(kit.PLACE, min_size=2, max_size=8)
    queuer = PgQueuer(AsyncpgPoolDriver(pool))

    @queuer.entrypoint("nothing")
    async def nothing(job: Any) -> None:
        await kit.ahandle(json.loads(job.payload)["number"])

    patience = timedelta(seconds=kit.LEASE if kit.WORK else 30)
    await queuer.run(batch_size=200, heartbeat_timeout=patience)


def payload(number: int) -> bytes:
    return json.dumps({"number": number, "text": kit.TEXT}).encode()


class PgQueuerPeer(kit.AsyncPeer):
    queries: Any

    def reset(self) -> None:
        kit.empty_postgres()
        asyncio.run(install())

    async def aopen(self) -> None:
        self.queries = Queries(AsyncpgDriver(await asyncpg.connect(kit.PLACE)))

    async def aput(self, number: int) -> None:
        await self.queries.enqueue("nothing", payload(number))

    async def aput_many(self, numbers: Sequence[int]) -> None:
        some = len(numbers)
        await self.queries.enqueue(["nothing"] * some, [payload(number) for number in numbers], [0] * some)

    def unfinished(self) -> int:
        return count()

    def work(self) -> None:
        asyncio.run(serve())


if __name__ == "__main__":
    kit.run(PgQueuerPeer())
