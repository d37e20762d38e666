"""chancy on Postgres: the async executor with 100 slots, polling eagerly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from chancy import Chancy, Queue, Worker, job
from chancy.plugins.leadership import Leadership
from chancy.plugins.recovery import Recovery

from . import kit

count = kit.Counter("select count(*) from chancy_jobs where state not in ('succeeded', 'failed')")


async def nothing(*, number: int, text: str) -> None:
    await kit.ahandle(number)


# The worker finds it by this name, not by that of the program.
nothing.__module__ = "benchmarks.peers.chancy_postgres"
TEMPLATE = job()(nothing).job


def make() -> Chancy:
    log = logging.getLogger("quiet")
    log.setLevel(logging.WARNING)
    swift = [Leadership(poll_interval=2, timeout=5), Recovery(poll_interval=2)] if kit.WORK else []
    return Chancy(kit.PLACE, log=log, plugins=swift)


async def install() -> None:
    async with make() as chancy:
        await chancy.migrate()
        queue = Queue(
            "default", concurrency=100, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True
        )
        await chancy.declare(queue, upsert=True)


async def serve() -> None:
    swift = {"heartbeat_poll_interval": 2, "heartbeat_timeout": kit.LEASE} if kit.WORK else {}
    async with make() as chancy, Worker(chancy, **swift) as worker:
        await worker.wait_for_shutdown()


class ChancyPeer(kit.AsyncPeer):
    chancy: Any

    def reset(self) -> None:
        kit.empty_postgres()
        asyncio.run(install())

    async def aopen(self) -> None:
        self.chancy = await make().__aenter__()

    async def aput(self, number: int) -> None:
        await self.chancy.push(TEMPLATE.with_kwargs(number=number, text=kit.TEXT))

    async def aput_many(self, numbers: Sequence[int]) -> None:
        jobs = [TEMPLATE.with_kwargs(number=number, text=kit.TEXT) for number in numbers]
        async for _ in self.chancy.push_many(jobs, batch_size=kit.BULK):
            pass

    async def aclose(self) -> None:
        await self.chancy.__aexit__(None, None, None)

    def unfinished(self) -> int:
        return count()

    def work(self) -> None:
        asyncio.run(serve())


if __name__ == "__main__":
    kit.run(ChancyPeer())
