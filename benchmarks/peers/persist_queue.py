"""persist-queue: SQLiteAckQueue, for one process. The loop is ours: get, run, acknowledge.

A new queue object takes back what was not acknowledged (`auto_resume`).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import persistqueue

from . import kit


class Persist(kit.Peer):
    def reset(self) -> None:
        self.open()

    def open(self) -> None:
        self.queue = persistqueue.SQLiteAckQueue(kit.PLACE, multithreading=True, auto_commit=True, timeout=30)

    def put(self, number: int) -> None:
        self.queue.put({"number": number, "text": kit.TEXT})

    def unfinished(self) -> int:
        with closing(sqlite3.connect(f"{kit.PLACE}/data.db", timeout=30)) as connection:
            # Above 2 are acknowledged ones.
            return int(connection.execute("select count(*) from ack_queue_default where status <= 2").fetchone()[0])

    def work(self) -> None:
        self.open()
        while True:
            item = self.queue.get(block=True)
            kit.handle(item["number"])
            self.queue.ack(item)


if __name__ == "__main__":
    kit.run(Persist())
