"""A process of readers: `python -m tests.acceptance.stream_readers STORE JOB READERS`.

Half of them await and half of them block. Each prints how many durable frames it saw, and a digest of them in order.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import holdfast


def digest(frames: Iterable[holdfast.model.Frame]) -> str:
    """Of durable frames, in the order of reading."""
    seen = [f"{frame.seq} {frame.attempt} {frame.data}" for frame in frames if not frame.best_effort]
    return f"{len(seen)} {hashlib.sha256(repr(seen).encode()).hexdigest()}"


async def _follow(app: holdfast.App, job_id: str) -> str:
    return digest([frame async for frame in app.astream(job_id)])


async def _read(store: str, job_id: str, readers: int) -> list[str]:
    app, loop = holdfast.App(store), asyncio.get_running_loop()
    with ThreadPoolExecutor(readers) as pool:
        blocking = [loop.run_in_executor(pool, lambda: digest(list(app.stream(job_id)))) for _ in range(readers // 2)]
        awaiting = [_follow(app, job_id) for _ in range(readers - len(blocking))]
        print("ready", flush=True)
        found = await asyncio.gather(*blocking, *awaiting)
    app.close()
    return found


if __name__ == "__main__":
    where, job, count = sys.argv[1:]
    for line in asyncio.run(_read(where, job, int(count))):
        print(line)
