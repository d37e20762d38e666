"""How fast one relay hands events over, in batches of 64, to a destination that does nothing with them."""

from __future__ import annotations

import time
from typing import Final

import holdfast

from .stores import Bench

NAME: Final = "bench"
BATCH: Final = 64
_CHUNK: Final = 1_000


def delivered(bench: Bench, count: int) -> float:
    """From the moment a full outbox is opened to a waiting worker, until the store shows nothing unfinished."""
    with bench.fresh() as url:
        app = holdfast.App(url)
        received = 0

        @app.destination(NAME, batch=BATCH, cap=None)
        async def take(events: list[holdfast.model.OutboxEvent]) -> None:
            nonlocal received
            received += len(events)

        try:
            app.migrate()
            app.queues.pause(f"outbox.{NAME}")
            for first in range(0, count, _CHUNK):
                app.outbox(NAME).put_many([{"n": n} for n in range(first, min(first + _CHUNK, count))])
            with app.worker():
                start = time.perf_counter()
                app.queues.resume(f"outbox.{NAME}")
                bench.await_empty(url)
                took = time.perf_counter() - start
        finally:
            app.close()
        if received != count:
            raise RuntimeError(f"of {count} events {received} were handed over")
        return count / took
