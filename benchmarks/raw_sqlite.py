"""The limit on SQLite: bare `sqlite3` loops on Holdfast's schema, durable (synchronous=FULL), with nothing else around.

They take, run and finish as Holdfast does, by the hundred in one commit, but check nothing and keep nothing in mind.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.storage import job_fields
from holdfast.storage.sqlite import SqliteStore
from tools.fill_jobs import inserts

from .measure import PAYLOAD, poll_until, rate

BATCH: Final = 100
# As wide as the real ones.
ROUTE: Final = 6_946_504_431_256_462_329
OWNER: Final = "01m7ffgwy90f9v4wx1z4xqkc1y"

_INSERT_JOB: Final = """
insert into holdfast_job (id, task, payload, max_attempts, created_at) values (:id, 'nothing', :payload, 5, :now)"""
_INSERT_LIVE: Final = f"""
insert into holdfast_live (id, task, queue, tenant, route, state, due, priority, rank, not_before, reason)
values (:id, 'nothing', 'bench', '', {ROUTE}, 'ready', 1, 0, :now, :now, 'new')"""
_READ: Final = f"""
select job.id, job.payload
  from (select id from holdfast_live where due = 1 and route = {ROUTE} order by priority desc, rank, id limit {BATCH})
       as first
 cross join holdfast_job as job on job.id = first.id"""
_CLAIM: Final = f"""
update holdfast_live
   set state = 'running', due = null, owner = '{OWNER}', claim = '{OWNER}', epoch = epoch + 1, attempts = attempts + 1,
       claimed_at = :now, started_at = :now
 where id in (select value from json_each(:ids)) and due = 1"""
_FINISH: Final = job_fields.expand(
    f"""
insert into holdfast_ended (@ended)
select @success(live, 'null')
  from json_each(:ids) as done cross join holdfast_live as live on live.id = done.value
 where live.state = 'running' and +live.owner = '{OWNER}' and live.epoch = 1"""
)
_LEAVE: Final = "delete from holdfast_live where id in (select value from json_each(:ids))"
_UNFINISHED: Final = """
select exists (select 1 from holdfast_live where due = 1)
    or exists (select 1 from holdfast_live where due = 0)
    or exists (select 1 from holdfast_live where due = 2)
    or exists (select 1 from holdfast_live where owner is not null)"""
# Jobs that ended, as Holdfast leaves them: the same for both databases.
HISTORY: Final = {
    "id": "id", "task": "'nothing'", "queue": "'bench'", "route": str(ROUTE), "state": "'succeeded'", "rank": "at",
    "not_before": "at", "payload": ":payload", "attempts": "1", "epoch": "2", "created_at": "at", "claimed_at": "at",
    "started_at": "at", "finished_at": "at", "finished_epoch": "1", "result": "'null'",
}  # fmt: skip
_NUMBERS: Final = """with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :rows)
| (select printf('%026d', n) as id, :at + n as at from numbers) as number"""


class SqliteBench:
    """Fresh databases in a temporary folder, and the bare loops on them."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The path of a new database with Holdfast's schema."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = f"{folder}/jobs.db"
            store = SqliteStore(path)
            store.migrate()
            store.close()
            yield path

    def settings(self) -> dict[str, str]:
        return {"SQLite": sqlite3.sqlite_version, "synchronous": "FULL", "journal": "WAL", "folder": str(self._folder)}

    def enqueue_one(self, count: int) -> float:
        """One row per commit, one thread."""
        with self.fresh() as path, closing(_connect(path)) as connection:
            return rate(lambda: _insert_singly(connection, count), count)

    def enqueue_bulk(self, calls: int) -> float:
        """1,000 rows per commit by executemany."""
        with self.fresh() as path, closing(_connect(path)) as connection:
            return rate(lambda: _insert_many(connection, calls), 1_000 * calls)

    def drain(self, count: int) -> float:
        """Claim 100, an asyncio task for each, finish them with the next claim."""
        with self.fresh() as path, closing(_connect(path)) as connection:
            _insert_many(connection, count // 1_000)
            return rate(lambda: asyncio.run(_drain(connection)), count)

    def await_empty(self, path: str, look: Callable[[], None] = lambda: None) -> None:
        """Block until the store shows nothing that is ready or running. `look` is called each time."""
        with closing(_connect(path)) as connection:

            def is_empty() -> bool:
                look()
                return not connection.execute(_UNFINISHED).fetchone()[0]

            poll_until(is_empty)

    def add_finished(self, path: str, rows: int) -> None:
        """Jobs that succeeded an hour ago."""
        at = time.time_ns() // 1000 - 3_600_000_000
        with closing(_connect(path)) as connection:
            for text in inserts(HISTORY, _NUMBERS, ended=True):
                connection.execute(text, {"rows": rows, "at": at, "payload": json.dumps({"n": 0, "text": PAYLOAD})})
            connection.execute("pragma wal_checkpoint(truncate)")

    def analyse(self, path: str) -> None:
        with closing(_connect(path)) as connection:
            connection.execute("analyze")


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("pragma synchronous=full")
    connection.execute("pragma temp_store=memory")
    return connection


def _rows(count: int) -> Iterator[dict[str, Any]]:
    for number in itertools.islice(itertools.count(), count):
        payload = json.dumps({"n": number, "text": PAYLOAD})
        yield {"id": f"{number:026d}", "now": time.time_ns() // 1000, "payload": payload}


def _insert_singly(connection: sqlite3.Connection, count: int) -> None:
    for row in _rows(count):
        connection.execute("begin immediate")
        connection.execute(_INSERT_JOB, row)
        connection.execute(_INSERT_LIVE, row)
        connection.execute("commit")


def _insert_many(connection: sqlite3.Connection, calls: int) -> None:
    rows = _rows(1_000 * calls)
    for _ in range(calls):
        chosen = list(itertools.islice(rows, 1_000))
        connection.execute("begin immediate")
        connection.executemany(_INSERT_JOB, chosen)
        connection.executemany(_INSERT_LIVE, chosen)
        connection.execute("commit")


async def _drain(connection: sqlite3.Connection) -> None:
    done = "[]"
    while True:
        now = time.time_ns() // 1000
        connection.execute("begin immediate")
        connection.execute(_FINISH, {"ids": done, "now": now})
        connection.execute(_LEAVE, {"ids": done})
        taken = connection.execute(_READ).fetchall()
        done = json.dumps([job_id for job_id, _ in taken])
        connection.execute(_CLAIM, {"ids": done, "now": now})
        connection.execute("commit")
        if not taken:
            return
        for task in [asyncio.create_task(_handle(**json.loads(payload))) for _, payload in taken]:
            await task


async def _handle(n: int, text: str) -> None: ...
