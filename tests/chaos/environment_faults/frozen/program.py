"""A program of its time: it runs on whichever Holdfast is first on the path, be it the one of this file's folder.

python program.py make       a store with a job in every state there is; the last is left running until killed
python program.py work       a worker, until its standard input ends
python program.py enqueue 5  so many jobs; says what is raised instead
"""

from __future__ import annotations

import os
import sys
import time

import holdfast
from tests.chaos import ledger

app = holdfast.App(lease=2.0)


def note(mark: str, job: str, epoch: int = 0) -> None:
    ledger.append(os.environ["TEST_LEDGER"], mark, job, epoch)


@app.task(max_attempts=None)
def entry(ctx: holdfast.SyncContext, seconds: float) -> str:
    note("S", ctx.id, ctx.job.epoch)
    ctx.wait_cancelled(seconds)
    note("E", ctx.id, ctx.job.epoch)
    return ctx.fence


@app.task(max_attempts=1)
def doomed() -> None:
    raise holdfast.Fail("as asked")


@app.task(max_attempts=None)
def again(ctx: holdfast.SyncContext) -> int:
    if ctx.attempt == 1:
        raise holdfast.Retry("once more", after=1.0)
    return ctx.attempt


def enqueue(task: holdfast.Task, *args: object) -> holdfast.Job:
    job = task.enqueue(*args)
    note("Q", job.id)
    return job


def make() -> None:
    app.migrate()
    ended = [enqueue(entry, 0), enqueue(doomed), enqueue(entry.options(deadline=0.01, delay=30.0), 0)]
    cancelled = enqueue(entry.options(delay=60.0), 0)
    with app.worker():
        for job in ended:
            job.wait(60)
        app.jobs.cancel(cancelled.id)
        enqueue(again)
        time.sleep(0.2)
    # What follows is there when somebody else comes: due, later, holding a key, and running.
    for _ in range(3):
        enqueue(entry, 0)
    enqueue(entry.options(delay=1.0), 0)
    enqueue(entry.options(dedupe_key="one", delay=0.5), 0)
    with app.worker(concurrency=1, queues=("slow",)):
        enqueue(entry.options(queue="slow"), 2)
        print("made", flush=True)
        sys.stdin.read()


def work() -> None:
    with app.worker(queues=("default", "slow")):
        print("working", flush=True)
        sys.stdin.read()


def enqueue_some(count: int) -> None:
    for _ in range(count):
        try:
            enqueue(entry, 0)
        except holdfast.HoldfastError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return
    print("stored", flush=True)


if __name__ == "__main__":
    {"make": make, "work": work, "enqueue": lambda: enqueue_some(int(sys.argv[2]))}[sys.argv[1]]()
