"""DBOS on SQLite or Postgres: workflows of no steps, from a queue that is polled each 50 ms instead of each second.

A worker that restarts under its old executor id takes up what it had begun.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from dbos import DBOS, DBOSClient

from . import kit

ON_POSTGRES = kit.PLACE.startswith("postgresql:")
FILE = f"{kit.PLACE}/dbos.sqlite"
URL = kit.PLACE.replace("postgresql:", "postgresql+psycopg:") if ON_POSTGRES else f"sqlite:///{FILE}"
UNFINISHED = "select count(*) from {} where status in ('ENQUEUED', 'PENDING')"
count = kit.Counter(UNFINISHED.format("dbos.workflow_status"))


def launch() -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": URL,
            "log_level": "WARNING",
            "application_version": "1",
            "executor_id": f"worker{kit.INDEX}",
            "sys_db_pool_size": 20,
        }
    )

    @DBOS.workflow(name="nothing")
    async def nothing(number: int, text: str) -> None:
        await kit.ahandle(number)

    DBOS.launch()
    DBOS.register_queue("bench", polling_interval_sec=0.05, on_conflict="always_update")


class Dbos(kit.Peer):
    client: Any

    def reset(self) -> None:
        if ON_POSTGRES:
            kit.empty_postgres()
        launch()
        DBOS.destroy()

    def open(self) -> None:
        self.client = DBOSClient(system_database_url=URL)

    def put(self, number: int) -> None:
        options: Any = {"workflow_name": "nothing", "queue_name": "bench", "app_version": "1"}
        self.client.enqueue(options, number, kit.TEXT)

    def unfinished(self) -> int:
        if ON_POSTGRES:
            return count()
        with closing(sqlite3.connect(FILE, timeout=30)) as connection:
            return int(connection.execute(UNFINISHED.format("workflow_status")).fetchone()[0])

    def work(self) -> None:
        launch()
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    kit.run(Dbos())
