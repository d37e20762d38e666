"""A process that enqueues so many jobs a second, as a service does: a few at a time, whether others keep up or not.

    python -m tests.chaos.load.producer STORE RATE SECONDS

It notes each job in the ledger when its store has said yes, and in the end prints how many there were.
"""

from __future__ import annotations

import sys
import time

from tests.chaos.storm import notes

from .work import app, touch

BATCH = 10
MOST = 100
"""After a stall."""


def produce(rate: float, seconds: float) -> int:
    """Keep to the timetable: who is late goes on without a rest until the time is over."""
    began, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        if sent >= rate * elapsed:
            time.sleep((sent + BATCH) / rate - elapsed)
            continue
        batch = min(MOST, max(BATCH, round(rate * elapsed) - sent))
        for job in app.enqueue_many([touch.job(f"{sent + n}") for n in range(batch)]):
            notes.write("Q", job.id)
        sent += batch
    return sent


if __name__ == "__main__":
    store, rate, seconds = sys.argv[1:]
    with app.override_store(store):
        app.enqueue_many([])  # it is open, and the first second is one of work
        print(produce(float(rate), float(seconds)), flush=True)
