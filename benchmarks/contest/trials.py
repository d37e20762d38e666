"""How fast a peer is: enqueue, bulk, drain until its store shows nothing unfinished, and the delay of an idle one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

from ..measure import Latency
from .stage import Stage


class Stalled(Exception):
    """Nothing moved any more before everything was done."""


def enqueue(stage: Stage, count: int) -> float:
    """Jobs a second, one by one, by one producer."""
    stage.call("reset")
    return count / stage.call("enqueue", count)


def bulk(stage: Stage, count: int) -> float:
    """Jobs a second, 1,000 at a time."""
    stage.call("reset")
    return count / stage.call("bulk", count)


def drain(stage: Stage, count: int, *, processes: int = 1, analysed: bool = False) -> float:
    """Jobs a second, from the start of the first handler until nothing is unfinished."""
    fill(stage, count)
    if analysed:
        _analyse(stage.place)
    with stage.watcher() as watcher, stage.workers(processes) as workers:
        await_notes(stage, workers, count)
        settled = watcher.settled()
    notes = stage.notes()
    if len({number for number, _ in notes}) != count:
        raise Stalled(f"{stage.entry.key}: of {count} jobs {len(notes)} ran")
    # A peer that forgets a job when it takes it may look settled while the last one runs.
    return count / ((max(settled, *(at for _, at in notes)) - min(at for _, at in notes)) / 1e9)


def delays(stage: Stage, samples: int) -> Latency:
    """From the producer's call to the start of the handler, one job at a time."""
    fill(stage, 10)
    with stage.workers(1) as workers:
        await_notes(stage, workers, 10)
        time.sleep(0.5)
        stage.clear()
        stage.call("delays", samples + 5)
        await_notes(stage, workers, samples + 5)
    found = sorted((number, at) for number, at in stage.notes())[5:]
    return Latency.of([(at - sent) / 1e9 for sent, at in found])


def fill(stage: Stage, count: int) -> None:
    """An empty place, and then that many jobs."""
    stage.call("reset")
    stage.call("bulk" if stage.entry.bulk else "enqueue", count)
    stage.clear()


def await_notes(stage: Stage, workers: Sequence[subprocess.Popen[bytes]], count: int, patience: float = 30) -> None:
    """Block until so many handlers have started. Stalled if nothing happens for long, or no worker is left."""
    seen, since = 0, time.monotonic()
    while (found := stage.count()) < count:
        if found != seen:
            seen, since = found, time.monotonic()
        if time.monotonic() > since + patience or all(worker.poll() is not None for worker in workers):
            raise Stalled(f"{stage.entry.key}: {seen} of {count} jobs, then nothing; {_last_words(stage)}")
        time.sleep(0.01)


def _analyse(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("analyze")


def _last_words(stage: Stage) -> str:
    with stage.log.open("rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 400))
        return log.read().decode("utf-8", "replace").strip()
