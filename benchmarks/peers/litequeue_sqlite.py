"""litequeue: a queue without workers, so the loop is ours: take, run, mark as done, sleep 10 ms when there is nothing.

It has no lease; the loop puts back, once a second, what has been held for long.
"""

from __future__ import annotations

import json
import time

from litequeue import LiteQueue

from . import kit

FILE = f"{kit.PLACE}/litequeue.db"


class Lite(kit.Peer):
    def reset(self) -> None:
        LiteQueue(FILE)

    def open(self) -> None:
        self.queue = LiteQueue(FILE, timeout=30)

    def put(self, number: int) -> None:
        self.queue.put(json.dumps({"number": number, "text": kit.TEXT}))

    def unfinished(self) -> int:
        if not hasattr(self, "queue"):
            self.open()
        # 0 is ready, 1 is locked by a worker.
        return int(self.queue.conn.execute("select count(*) from Queue where status in (0, 1)").fetchone()[0])

    def work(self) -> None:
        self.open()
        looked = time.monotonic()
        while True:
            if time.monotonic() > looked + 1:
                looked = time.monotonic()
                for held in self.queue.list_locked(kit.LEASE):
                    self.queue.retry(held.message_id)
            message = self.queue.pop()
            if message is None:
                time.sleep(0.01)
                continue
            kit.handle(json.loads(message.data)["number"])
            self.queue.done(message.message_id)


if __name__ == "__main__":
    kit.run(Lite())
