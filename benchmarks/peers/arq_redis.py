"""arq on Redis: 100 jobs at once, polled each 10 ms instead of each 500, no results kept."""

from __future__ import annotations

from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from . import kit

REDIS = RedisSettings.from_dsn(kit.PLACE or "redis://localhost")


async def nothing(context: Any, number: int, text: str) -> None:
    await kit.ahandle(number)


class WorkerSettings:
    functions = (nothing,)
    redis_settings = REDIS
    max_jobs = 100
    poll_delay = 0.01
    keep_result = 0
    queue_read_limit = 1000
    # A job of a dead worker is held for this long, and 10 s more.
    job_timeout = kit.LEASE if kit.WORK else 300


class Arq(kit.AsyncPeer):
    pool: Any

    def reset(self) -> None:
        kit.empty_redis()

    async def aopen(self) -> None:
        self.pool = await create_pool(REDIS)

    async def aput(self, number: int) -> None:
        await self.pool.enqueue_job("nothing", number, kit.TEXT)

    def unfinished(self) -> int:
        return int(kit.redis_client().zcard("arq:queue"))


if __name__ == "__main__":
    kit.run(Arq())
