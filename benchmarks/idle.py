"""What Holdfast costs while nothing happens: an idle worker's processor and memory, and the queries of those who wait.

Queries are counted where they are run: on SQLite by the connections' trace of this process, on Postgres by the server's
log of every statement, or, where that cannot be read, by its count of transactions. BEGIN, COMMIT and the like are not
counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from holdfast.worker import resting

from . import fleet
from .jobs import Jobs, jobs_on
from .measure import Reading
from .raw_postgres import PostgresBench
from .stores import Bench, server

SETTLE: Final = 3.0
"""Seconds for what comes with a start to be over."""
_CONTROL: Final = ("begin", "commit", "rollback", "savepoint", "release")
_LOGGED: Final = re.compile(rb"LOG:  (?:statement|execute [^:]*): (?!" + "|".join(_CONTROL).encode() + rb")")

Count = Callable[[], int]


def worker(bench: Bench, seconds: float) -> Reading:
    """`holdfast worker` with nothing to do: per cent of a core, and resident MB."""
    with bench.fresh() as url, fleet.command_line_worker(url) as pid:
        time.sleep(SETTLE)
        return {"cpu": fleet.busy_share(pid, seconds), "rss": fleet.resident(pid)}


def queries_of_waiters(bench: Bench, waiters: int, seconds: float) -> float:
    """Queries a second of so many tasks that await the result of a job that does not come."""

    async def wait(jobs: Jobs, count: Count) -> float:
        job = await jobs.nothing.aenqueue(0, "")
        waiting = [asyncio.create_task(job.aresult()) for _ in range(waiters)]
        found = await _per_second(count, seconds)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return found

    with bench.fresh() as url, _counted(url) as count:
        jobs = jobs_on(url)
        found = asyncio.run(wait(jobs, count))
        jobs.app.close()
        return found


def queries_of_workers(bench: Bench, workers: int, seconds: float) -> float:
    """Queries a second of so many idle workers, each with a store of its own, on one event loop."""

    async def serve(apps: list[Jobs], count: Count) -> float:
        async with AsyncExitStack() as stack:
            for jobs in apps:
                await stack.enter_async_context(jobs.app.worker())
            return await _per_second(count, seconds)

    with bench.fresh() as url, _counted(url) as count:
        apps = [jobs_on(url) for _ in range(workers)]
        found = asyncio.run(serve(apps, count))
        for jobs in apps:
            jobs.app.close()
        return found


def statements_at_rest(bench: Bench, idle: float, minutes: float) -> float:
    """Statements a minute of a `holdfast worker --idle` without work, once it rests."""
    with bench.fresh() as url, fleet.command_line_worker(url, "--idle", str(idle)):
        count = _count_on_server(url)
        time.sleep(SETTLE + resting.SETTLE)
        before, start = count(), time.monotonic()
        time.sleep(60 * minutes)
        return (count() - before) / ((time.monotonic() - start) / 60)


def main() -> None:
    """Print how many statements a worker at rest makes on Postgres."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--idle", type=float, default=60)
    options.add_argument("--minutes", type=float, default=30)
    given = options.parse_args()
    with server() as dsn:
        found = statements_at_rest(PostgresBench(dsn), given.idle, given.minutes)
        print(f"--idle {given.idle:g}: {found:.2f} statements a minute, over {given.minutes:g} minutes")


async def _per_second(count: Count, seconds: float) -> float:
    await asyncio.sleep(SETTLE)
    before, start = count(), time.monotonic()
    await asyncio.sleep(seconds)
    return (count() - before) / (time.monotonic() - start)


@contextmanager
def _counted(url: str) -> Iterator[Count]:
    if url.startswith("postgresql:"):
        yield _count_on_server(url)
        return
    connect, statements = sqlite3.connect, 0

    def note(statement: str) -> None:
        nonlocal statements
        statements += not statement.startswith(_CONTROL)

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(note)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    try:
        yield lambda: statements
    finally:
        sqlite3.connect = connect


def _count_on_server(url: str) -> Count:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    # A server of the wheel writes its log beside its socket.
    log = Path(str(parts.get("host", ""))) / "log"
    with contextlib.suppress(OSError), psycopg.connect(url, autocommit=True) as connection:
        log.stat()
        name = sql.Identifier(str(parts["dbname"]))
        connection.execute(sql.SQL("alter database {} set log_statement = 'all'").format(name))
        return lambda: len(_LOGGED.findall(log.read_bytes()))
    return lambda: _transactions(url)


def _transactions(url: str) -> int:
    with psycopg.connect(url) as connection:
        asked = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        found = connection.execute(asked).fetchone()
        assert found is not None
        return int(found[0])


if __name__ == "__main__":
    main()
