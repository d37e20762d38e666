"""How long the migration to split tables takes: `python -m benchmarks.upgrade [--rows N] [--store sqlite|postgres]`.

A store of the schema before it is filled with jobs, of which one in twenty has not ended, and then migrated.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg

import holdfast
from holdfast.storage import migrate
from holdfast.storage.migrate import Dialect
from holdfast.storage.sqlite.schema import statements
from tests.postgres_server import Databases, url_of

from .stores import server

_BEFORE: Final = 33
_FILL: Final = """insert into holdfast_job (
    id, task, queue, route, state, due, rank, not_before, reason, payload, attempts, max_attempts, epoch, created_at,
    claimed_at, started_at, finished_at, finished_epoch, result)
with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {rows})
select 'job' || (100000000 + n), 'task' || (n % 20), 'queue' || (n % 5), 1,
       case when n % 20 = 0 then 'ready' when n % 50 = 1 then 'failed' else 'succeeded' end,
       case when n % 20 = 0 then 1 end, n, n, case when n % 20 = 0 then 'new' when n % 50 = 1 then 'exhausted' end,
       '{{"args": [], "kwargs": {{"text": "' || substr('{text}', 1, 100) || '"}}}}',
       case when n % 20 = 0 then 0 else 1 end, 5, case when n % 20 = 0 then 0 else 2 end, n,
       case when n % 20 > 0 then n end, case when n % 20 > 0 then n end, case when n % 20 > 0 then n end,
       case when n % 20 > 0 then 1 end, case when n % 20 > 0 then 'null' end
  from numbers"""
_RECORD: Final = "insert into holdfast_migration (version, name, applied_at, oldest_writer) values ({}, '{}', 0, {})"


def main() -> None:
    options = _options()
    if options.store in ("both", "sqlite"):
        with tempfile.TemporaryDirectory(prefix="holdfast-upgrade-") as folder:
            path = Path(folder) / "jobs.db"
            with closing(sqlite3.connect(path, isolation_level=None)) as file:
                file.execute("pragma journal_mode = wal")
                file.execute("begin")
                _make("sqlite", file.execute, options.rows)
                file.execute("commit")
            _report("SQLite", str(path), options.rows)
            print(f"SQLite: file of {os.path.getsize(path) / 1e6:,.0f} MB afterwards")
    if options.store in ("both", "postgres"):
        with server() as dsn:
            databases = Databases(dsn)
            name = databases.create()
            with psycopg.connect(name, autocommit=True) as connection:
                _make("postgres", lambda text: connection.execute(text.encode()), options.rows)
            _report("Postgres", url_of(name), options.rows)
            databases.drop(name)


def _make(dialect: Dialect, run: Callable[[str], Any], rows: int) -> None:
    run(migrate.CREATE_TABLE)
    for migration in migrate.migrations(dialect):
        if migration.version <= _BEFORE:
            for text in statements(migration.text) if dialect == "sqlite" else [migration.text]:
                run(text)
            run(_RECORD.format(migration.version, migration.name, migration.oldest_writer))
    run(_FILL.format(rows=rows, text="x" * 100))


def _report(name: str, url: str, rows: int) -> None:
    app = holdfast.App(url)
    start = time.perf_counter()
    app.migrate()
    print(f"{name}: {rows:,} jobs migrated in {time.perf_counter() - start:.1f} s", flush=True)
    app.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upgrade", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    return parser.parse_args()


if __name__ == "__main__":
    main()
