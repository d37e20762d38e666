"""The limit on Postgres: bare psycopg loops on Holdfast's schema, one connection, with nothing else around."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg

from holdfast.storage import job_fields
from holdfast.storage.postgres import PostgresStore
from tests.postgres_server import Databases
from tools.fill_jobs import inserts

from .measure import PAYLOAD, poll_until, rate
from .raw_sqlite import BATCH, HISTORY, OWNER, ROUTE

_INSERT: Final = f"""
with job as (
    insert into holdfast_job (id, task, payload, max_attempts, created_at)
    values (%(id)s, 'nothing', %(payload)s, 5, %(now)s)
)
insert into holdfast_live (id, task, queue, tenant, route, state, due, priority, rank, not_before, reason)
values (%(id)s, 'nothing', 'bench', '', {ROUTE}, 'ready', 1, 0, %(now)s, %(now)s, 'new')"""
_INSERT_MANY: Final = f"""
with item as materialized (
    select * from unnest(%s::text[], %s::bigint[], %s::text[]) as item(id, at, payload)
), job as (
    insert into holdfast_job (id, task, payload, max_attempts, created_at)
    select id, 'nothing', payload, 5, at from item
)
insert into holdfast_live (id, task, queue, tenant, route, state, due, priority, rank, not_before, reason)
select id, 'nothing', 'bench', '', {ROUTE}, 'ready', 1, 0, at, at, 'new' from item"""
_CLAIM: Final = f"""
with head as materialized (
    select id from holdfast_live where due = 1 and route = {ROUTE} order by priority desc, rank, id limit {BATCH}
       for update skip locked
), taken as (
    update holdfast_live
       set state = 'running', due = null, owner = '{OWNER}', claim = '{OWNER}', epoch = epoch + 1,
           attempts = attempts + 1, claimed_at = %(now)s, started_at = %(now)s, reason = null
     where id = any(array(select id from head))
    returning id
)
select job.id, job.payload from taken join holdfast_job as job on job.id = taken.id"""
_FINISH: Final = job_fields.expand(
    f"""
with live as (
    delete from holdfast_live
     where id = any(%(ids)s) and state = 'running' and owner = '{OWNER}' and epoch = 1
    returning *
)
insert into holdfast_ended (@ended) select @success(live, 'null') from live order by id"""
).replace(":now", "%(now)s")
_UNFINISHED: Final = """
select exists (select 1 from holdfast_live where due = 1)
    or exists (select 1 from holdfast_live where due = 0)
    or exists (select 1 from holdfast_live where due = 2)
    or exists (select 1 from holdfast_live where owner is not null)"""
_NUMBERS: Final = """(select lpad(n::text, 26, '0') as id, %(at)s::bigint + n as at
                        from generate_series(1, %(rows)s::bigint) as n) as number"""


class PostgresBench:
    """Fresh databases on one server, and the bare loops on them."""

    name = "Postgres"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._databases = Databases(dsn)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of a new database with Holdfast's schema."""
        dsn = self._databases.create()
        try:
            store = PostgresStore(dsn, notify=False)
            store.migrate()
            store.close()
            parts = psycopg.conninfo.conninfo_to_dict(dsn)
            yield "postgresql:///?" + "&".join(f"{name}={value}" for name, value in parts.items())
        finally:
            self._databases.drop(dsn)

    def settings(self) -> dict[str, str]:
        names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "max_connections")
        with psycopg.connect(self._dsn) as connection:
            found = {name: connection.execute(f"show {name}").fetchone()[0] for name in names}  # type: ignore[index]
        return {"psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})", **found}

    def enqueue_one(self, count: int) -> float:
        """One row per commit, one connection."""
        with self.fresh() as url, closing(_connect(url)) as connection:
            return rate(lambda: _insert_singly(connection, count), count)

    def enqueue_bulk(self, calls: int) -> float:
        """1,000 rows per commit as arrays."""
        with self.fresh() as url, closing(_connect(url)) as connection:
            return rate(lambda: _insert_many(connection, calls), 1_000 * calls)

    def drain(self, count: int) -> float:
        """Claim 100, an asyncio task for each, finish them with the next claim."""
        with self.fresh() as url, closing(_connect(url)) as connection:
            _insert_many(connection, count // 1_000)
            return rate(lambda: asyncio.run(_drain(connection)), count)

    def await_empty(self, url: str, look: Callable[[], None] = lambda: None) -> None:
        """Block until the store shows nothing that is ready or running. `look` is called each time."""
        with closing(_connect(url)) as connection:
            # A new table has no statistics, and a scan of it all each time would be felt by what is measured.
            connection.execute("set enable_seqscan = off")

            def is_empty() -> bool:
                look()
                return not connection.execute(_UNFINISHED).fetchone()[0]  # type: ignore[index]

            poll_until(is_empty)

    def add_ready(self, connection: psycopg.Connection[Any], count: int) -> None:
        """Jobs that the bare loops can claim."""
        _insert_many(connection, count // 1_000)

    def add_finished(self, url: str, rows: int) -> None:
        """Jobs that succeeded an hour ago."""
        at = time.time_ns() // 1000 - 3_600_000_000
        payload = json.dumps({"n": 0, "text": PAYLOAD})
        with closing(_connect(url)) as connection:
            for text in inserts(HISTORY | {"payload": "%(payload)s"}, _NUMBERS, ended=True):
                connection.execute(text.encode(), {"rows": rows, "at": at, "payload": payload})
            connection.execute("checkpoint")

    def analyse(self, url: str) -> None:
        with closing(_connect(url)) as connection:
            connection.execute("analyze")


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(url, autocommit=True, prepare_threshold=0)


def _rows(count: int) -> Iterator[tuple[str, int, str]]:
    for number in itertools.islice(itertools.count(), count):
        yield f"{number:026d}", time.time_ns() // 1000, json.dumps({"n": number, "text": PAYLOAD})


def _insert_singly(connection: psycopg.Connection[Any], count: int) -> None:
    for job_id, now, payload in _rows(count):
        connection.execute(_INSERT, {"id": job_id, "now": now, "payload": payload})


def _insert_many(connection: psycopg.Connection[Any], calls: int) -> None:
    rows = _rows(1_000 * calls)
    for _ in range(calls):
        connection.execute(_INSERT_MANY, [list(column) for column in zip(*itertools.islice(rows, 1_000), strict=True)])


async def _drain(connection: psycopg.Connection[Any]) -> None:
    done: Sequence[str] = ()
    while True:
        now = time.time_ns() // 1000
        with connection.transaction():
            if done:
                connection.execute(_FINISH.encode(), {"ids": done, "now": now})
            taken = connection.execute(_CLAIM, {"now": now}).fetchall()
        if not taken:
            return
        for task in [asyncio.create_task(_handle(**json.loads(payload))) for _, payload in taken]:
            await task
        done = [job_id for job_id, _ in taken]


async def _handle(n: int, text: str) -> None: ...
