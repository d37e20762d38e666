"""absurd on Postgres: 20 slots, batches of 50, polled each 10 ms. ABSURD_SQL names its schema, which no package has."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd

from . import kit

count = kit.Counter("select count(*) from absurd.\"t_default\" where state in ('pending', 'running', 'sleeping')")


async def serve() -> None:
    app = AsyncAbsurd(kit.PLACE, queue_name="default")

    @app.register_task("nothing")
    async def nothing(parameters: Any, context: Any) -> None:
        await kit.ahandle(parameters["number"])

    patience = kit.LEASE if kit.WORK else 120
    await app.start_worker(concurrency=20, batch_size=50, poll_interval=0.01, claim_timeout=patience)


class AbsurdPeer(kit.Peer):
    app: Any

    def reset(self) -> None:
        kit.empty_postgres()
        with psycopg.connect(kit.PLACE, autocommit=True) as connection:
            # A file of our user's choice.
            connection.execute(Path(os.environ["ABSURD_SQL"]).read_bytes())
        self.open()
        self.app.create_queue("default")

    def open(self) -> None:
        self.app = Absurd(kit.PLACE, queue_name="default")
        self.app.register_task("nothing")(lambda parameters, context: None)

    def put(self, number: int) -> None:
        self.app.spawn("nothing", {"number": number, "text": kit.TEXT})

    def unfinished(self) -> int:
        return count()

    def work(self) -> None:
        asyncio.run(serve())


if __name__ == "__main__":
    kit.run(AbsurdPeer())
