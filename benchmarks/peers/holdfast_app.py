"""Holdfast itself, measured in the same way. `app` is for `holdfast worker`; KIND chooses async or def."""

from __future__ import annotations

import os
from collections.abc import Sequence

import holdfast

from . import kit

IS_DEF = os.environ.get("KIND") == "def"
app = holdfast.App(kit.PLACE or "unused.db")


@app.task
async def nothing(number: int, text: str) -> None:
    await kit.ahandle(number)


@app.task
def nothing_in_thread(number: int, text: str) -> None:
    kit.handle(number)


TASK = nothing_in_thread if IS_DEF else nothing


class Holdfast(kit.Peer):
    def reset(self) -> None:
        if kit.PLACE.startswith("postgresql:"):
            kit.empty_postgres()
        app.migrate()

    def open(self) -> None:
        # As a program does that has been running for a while.
        app.open()

    def put(self, number: int) -> None:
        TASK.enqueue(number, kit.TEXT)

    def put_many(self, numbers: Sequence[int]) -> None:
        app.enqueue_many([TASK.job(number, kit.TEXT) for number in numbers])

    def close(self) -> None:
        app.close()

    def unfinished(self) -> int:
        return sum(count.jobs for count in app.jobs.counts() if count.state in ("ready", "running"))


if __name__ == "__main__":
    kit.run(Holdfast())
