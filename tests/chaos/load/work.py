"""The work of the load: one short task. Run as a program it becomes the zygote from which its workers are forked."""

from __future__ import annotations

import os

import holdfast
from tests.chaos.storm import notes

app = holdfast.App()


@app.task(max_attempts=None)
async def touch(ctx: holdfast.Context, word: str) -> str:
    notes.note("S", ctx)
    notes.note("E", ctx)
    return word


if __name__ == "__main__":
    from tests.chaos.storm.zygote import serve

    os._exit(serve(app))
