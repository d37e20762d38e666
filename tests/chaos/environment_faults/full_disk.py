"""The scene of a disk that fills up and is freed again and again, under two workers and a producer.

    python -m tests.chaos.environment_faults.full_disk FOLDER sqlite|postgres CYCLES    (see mounts.py)

The small disk has the file of SQLite, or the tablespace in which a database of Postgres is.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

import holdfast
from tests.chaos.environment_faults.crew import Crew, crew
from tests.chaos.environment_faults.mounts import fill, free, small_disk
from tests.chaos.environment_faults.tasks import producer
from tests.postgres_server import private_server, url_of

PADDING = "x" * 1_500
FULL = "StorageFull"


def main(folder: Path, kind: str, cycles: int) -> None:
    where = {"sqlite": on_sqlite, "postgres": on_postgres}[kind]
    with where() as (disk, store), producer(store) as app, crew(store, folder) as workers:
        app.migrate()
        for _ in range(2):
            workers.start("--concurrency", "4")
        refused = sum(fill_and_free(app, workers, disk) for _ in range(cycles))
        workers.wait_for_all(app)
        assert workers.leave(app) == [0, 0]
        print(json.dumps({"refused": refused, "jobs": len(workers.require(app).jobs)}))


@contextmanager
def on_sqlite() -> Iterator[tuple[Path, str]]:
    disk = small_disk(mebibytes=32)  # of which the log takes some 4 for each process before it is moved
    yield disk, str(disk / "jobs.db")
    assert intact(disk / "jobs.db")


@contextmanager
def on_postgres() -> Iterator[tuple[Path, str]]:
    disk = small_disk(mebibytes=20)
    with private_server() as server:
        place = disk / "space"
        place.mkdir()
        shutil.chown(place, server.user)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"create tablespace small location '{place}'")
            connection.execute("create database jobs tablespace small")
        yield disk, url_of(make_conninfo(server.dsn, dbname="jobs"))


def fill_and_free(app: holdfast.App, workers: Crew, disk: Path) -> int:
    """One cycle; how many enqueues were refused."""
    task = app.tasks["entry"]
    for _ in range(8):
        workers.enqueue(task, 0.05, PADDING)
    running = workers.enqueue(task, 0.5)
    workers.wait(lambda: running in workers.seen("S"), "it runs")
    said = workers.says(FULL)
    fill(disk)
    refused = enqueue_until_refused(app, workers)
    fill(disk)  # what was held back for such a time goes too
    # Heartbeats fail on a full disk. A job that is still running when the lease is about to end is handed back.
    handed_back = f"job {running} (entry) handed back"
    workers.wait(
        lambda: running in workers.seen("E") or workers.says(handed_back) > 0, "the job ends or is handed back"
    )
    # There may be just enough room to record its end, and then the workers have nothing more to write.
    workers.wait(
        lambda: workers.says(FULL) > said or app.jobs.get(running).state == "succeeded",
        "a worker says that the disk is full, or has recorded the end",
    )
    free(disk)
    workers.wait(lambda: accepted(app, workers), "jobs are taken again")
    workers.wait_for_all(app)
    return refused


def enqueue_until_refused(app: holdfast.App, workers: Crew, most: int = 5_000) -> int:
    """Whatever is acknowledged counts; then three in a row are refused by name, and nothing else is raised."""
    refused = 0
    for _ in range(most):
        try:
            workers.enqueue(app.tasks["entry"], 0.001, PADDING)
        except holdfast.errors.StorageFull:
            refused += 1
        if refused == 3:
            return refused
    raise AssertionError("the disk never got full")


def accepted(app: holdfast.App, workers: Crew) -> bool:
    try:
        workers.enqueue(app.tasks["entry"], 0.001)
    except holdfast.errors.StorageFull:
        return False
    return True


def intact(store: Path) -> bool:
    connection = sqlite3.connect(store)
    try:
        return connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
