"""Copies of one furnished store, on either database: each trial begins with the same rows."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from holdfast.clock import ManualClock
from holdfast.storage.port import Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from tests.conformance.world import World, by_write

from .facts import Facts, read_facts
from .stage import NOT_SERVED, Stage, furnish

MEMORY = Path("/dev/shm")
# What operators did is told as often as they do it.
_UNCOUNTED = {
    f"holdfast_{name}" for name in ("event_mark", "tally", "migration", "audit", "event", "event_inbox", "meta")
}

Dump = dict[str, set[tuple[Any, ...]]]


class Ground:
    """Where trials are made. `fresh` puts everything as it was."""

    stage: Stage
    base: Dump
    """What a trial begins with."""
    is_clean = False
    """Whether that is what is there now: it need not be put back."""
    _began: int

    def fresh(self) -> Stage:
        raise NotImplementedError

    def reopen(self) -> None:
        """As after a crash: what is in memory is gone."""
        raise NotImplementedError

    def close(self) -> None:
        self.stage.store.close()

    def dump(self) -> Dump:
        """Every row of every table."""
        return World(self.stage.store, self.stage.clock, by_write(self.stage.store), lambda: None).dump()

    def census(self) -> dict[str, Any]:
        """What there is, without the ids and times by which one run differs from another."""
        rows = self.dump()
        found: dict[str, Any] = {table: len(found) for table, found in rows.items() if table not in _UNCOUNTED}
        facts = self.facts()
        found["told"] = Counter(state for _, state in facts.told)
        found["states"] = Counter((job.state, job.queue, job.attempts, job.generation) for job in facts.jobs.values())
        found["spent"] = sorted((line.budget, line.dimension, line.spent) for line in facts.of("budget_line"))
        return found

    def facts(self) -> Facts:
        return read_facts(self.stage.store, unserved=NOT_SERVED)

    def _clock(self) -> ManualClock:
        clock = ManualClock(self._began)
        self.stage.clock = self.stage.app._clock = clock
        return clock


class SqliteGround(Ground):
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-", dir=MEMORY if MEMORY.is_dir() else None))
        self._numbers = itertools.count()
        clock = ManualClock()
        store = SqliteStore(self._folder / "base.db", clock=clock, durable=False)
        self.stage = furnish(store, clock)
        self._began = clock.now()
        self.base = self.dump()
        store.close()
        self._path = self._folder / "base.db"

    def fresh(self) -> Stage:
        self._forget()
        self._path = self._folder / f"{next(self._numbers)}.db"
        shutil.copy(self._folder / "base.db", self._path)
        self._open(self._clock())
        return self.stage

    def reopen(self) -> None:
        self.stage.store.close()
        self._open(self.stage.clock)

    def close(self) -> None:
        self._forget()
        shutil.rmtree(self._folder)

    def _open(self, clock: ManualClock) -> None:
        store = SqliteStore(self._path, clock=clock, durable=False)
        # Nobody waits for a checkpoint here, and its thread would only cost time.
        store._session()._checkpointer = None
        self.stage.use(store)

    def _forget(self) -> None:
        self.stage.store.close()
        if self._path.name != "base.db":
            for path in self._folder.glob(f"{self._path.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class PostgresGround(Ground):
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        clock = ManualClock()
        self.stage = furnish(self._store(clock), clock)
        self._began = clock.now()
        self._admin = psycopg.connect(dsn, autocommit=True)
        self._admin.execute("set session_replication_role = replica")
        listed = "select tablename::text from pg_tables where schemaname = 'public' and tablename like 'holdfast%'"
        self._tables = [name for (name,) in self._admin.execute(listed).fetchall()]
        self._admin.execute("create schema snap")
        for table in self._tables:
            self._admin.execute(f"create table snap.{table} as table public.{table}".encode())
        self.base = self.dump()

    def fresh(self) -> Stage:
        self.stage.store.close()
        if not self.is_clean:
            self._put_back()
        self.is_clean = False
        self.stage.use(self._store(self._clock()))
        return self.stage

    def _put_back(self) -> None:
        parts = [f"delete from public.{t}; insert into public.{t} overriding system value select * from snap.{t}"
                 for t in self._tables]  # fmt: skip
        self._admin.execute(("begin;" + ";".join(parts) + ";commit").encode())

    def reopen(self) -> None:
        self.stage.store.close()
        self.stage.use(self._store(self.stage.clock))

    def close(self) -> None:
        super().close()
        self._admin.close()

    def _store(self, clock: ManualClock) -> Store:
        return PostgresStore(self._dsn, clock=clock, notify=False, pool_size=4)
