"""procrastinate on Postgres: 20 slots, LISTEN/NOTIFY, successful jobs deleted.

It leaves the retry of stalled jobs to its users, who add a periodic task for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import procrastinate

from . import kit

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=kit.PLACE, min_size=2, max_size=20))
count = kit.Counter(
    "select count(*) from procrastinate_jobs where status in ('todo', 'doing') and task_name = 'nothing'"
)


@app.task(name="nothing")
async def nothing(number: int, text: str) -> None:
    await kit.ahandle(number)


@app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
async def retry_stalled(context: Any, timestamp: int) -> None:
    for stalled in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=kit.LEASE):
        await app.job_manager.retry_job(stalled)


if kit.WORK:
    app.periodic(cron="* * * * * */5")(retry_stalled)


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def serve() -> None:
    async with app.open_async():
        # Workers that died are forgotten, and their jobs with them, unless that takes longer than the retry.
        await app.run_worker_async(
            concurrency=20, delete_jobs="successful", update_heartbeat_interval=2, stalled_worker_timeout=3600
        )


class Procrastinate(kit.AsyncPeer):
    def reset(self) -> None:
        kit.empty_postgres()
        asyncio.run(install())

    async def aopen(self) -> None:
        await app.open_async()

    async def aput(self, number: int) -> None:
        await nothing.defer_async(number=number, text=kit.TEXT)

    async def aput_many(self, numbers: Sequence[int]) -> None:
        await nothing.batch_defer_async(*[{"number": number, "text": kit.TEXT} for number in numbers])

    async def aclose(self) -> None:
        await app.close_async()

    def unfinished(self) -> int:
        return count()

    def work(self) -> None:
        logging.disable(logging.INFO)
        asyncio.run(serve())


if __name__ == "__main__":
    kit.run(Procrastinate())
