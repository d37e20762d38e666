"""huey on SQLite. It removes a job from the file when a worker takes it. FSYNC=0 is synchronous=OFF."""

from __future__ import annotations

import os

from huey import SqliteHuey

from . import kit

huey = SqliteHuey(
    "bench",
    filename=f"{kit.PLACE}/huey.db",
    results=False,
    fsync=os.environ.get("FSYNC") == "1",
    cache_mb=64,
    timeout=30,
)


@huey.task(name="nothing")
def nothing(number: int, text: str) -> None:
    kit.handle(number)


class Huey(kit.Peer):
    def reset(self) -> None:
        huey.flush()

    def put(self, number: int) -> None:
        nothing(number, kit.TEXT)

    def unfinished(self) -> int:
        # A job that runs is known to nobody but its worker.
        return int(huey.pending_count())


if __name__ == "__main__":
    # The worker imports this file by its real name, and tasks carry the name of their module.
    from benchmarks.peers import huey_sqlite

    kit.run(huey_sqlite.Huey())
