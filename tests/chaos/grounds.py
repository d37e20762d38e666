"""Copies of one furnished store, on either database: each trial begins with the same rows."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from holdfast.clock import SECOND, ManualClock
from holdfast.ids import ids
from holdfast.storage.ops.jobs import queries
from holdfast.storage.port import Op, Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from tests.conformance.world import SHOWN

from .check import require
from .dials import SEED
from .facts import Facts, Shape, read_facts, shape_of
from .stage import NOT_SERVED, Stage, furnish, recover

# What operators did is told as often as they do it.
_UNCOUNTED = {
    f"holdfast_{name}" for name in ("event_mark", "tally", "migration", "audit", "event", "event_inbox", "meta")
}

_TABLES = "select name from sqlite_master where type = 'table' and name like 'holdfast_%'"

Dump = dict[str, set[Any]]


@dataclass(frozen=True)
class State:
    """All that is there, and the time; and a number for it."""

    rows: Dump
    now: int

    @cached_property
    def number(self) -> int:
        return hash((self.now, *((table, frozenset(self.rows[table])) for table in sorted(self.rows))))


class Ground:
    """Where trials are made. `fresh` puts everything as it was, also the dice, so that many trials end in one state:
    that is looked at once."""

    stage: Stage
    base: Dump
    """What a trial begins with."""
    is_clean = False
    """Whether that is what is there now: it need not be put back."""
    is_shaken = False
    """Whether the store has connections that are dead, and would find that out in the next trial."""
    _began: int

    def __init__(self) -> None:
        self._sound: dict[int, dict[str, Any]] = {}
        self._ended: set[int] = set()
        self._shape: Shape | None = None
        self._wall, self._entropy = ids.wall, ids.entropy
        self._throw_the_same_dice(0)

    def fresh(self) -> Stage:
        self._throw_the_same_dice(1)
        if self.is_shaken:
            self.reopen()
        if self.is_clean:
            self.stage.clock.step((self._began - self.stage.clock.now()) / SECOND)
        else:
            self._put_back()
        self.is_clean = self.is_shaken = False
        return self.stage

    def reopen(self) -> None:
        """As after a crash: what is in memory is gone."""
        self.stage.store.close()
        self._open(self.stage.clock)

    def close(self) -> None:
        self.stage.store.close()
        ids.wall, ids.entropy = self._wall, self._entropy

    def dump(self) -> Dump:
        """Every row of every table."""
        raise NotImplementedError

    def look(self) -> State:
        return State(self.dump(), self.stage.clock.now())

    def require_sound(self, state: State, hint: str) -> None:
        """The promises hold."""
        if state.number not in self._sound:
            require(facts := self.facts(), hint=hint)
            self._sound[state.number] = _census(state.rows, facts)

    def require_an_end(self, state: State, hint: str) -> None:
        """The promises hold, and hold when all that can be done is done."""
        self.require_sound(state, hint)
        if state.number not in self._ended:
            recover(self.stage)
            require(self.facts(), drained=True, hint=hint)
            self._ended.add(state.number)

    def census(self, state: State) -> dict[str, Any]:
        """What there is, without the ids and times by which one run differs from another."""
        self.require_sound(state, "the census")
        return self._sound[state.number]

    def facts(self) -> Facts:
        if self._shape is None:
            self._shape = self.stage.store.read(Op(shape_of))
        return read_facts(self.stage.store, shape=self._shape, unserved=NOT_SERVED)

    def _put_back(self) -> None:
        raise NotImplementedError

    def _open(self, clock: ManualClock) -> None:
        raise NotImplementedError

    def _clock(self) -> ManualClock:
        clock = ManualClock(self._began)
        self.stage.clock = self.stage.app._clock = clock
        return clock

    def _throw_the_same_dice(self, turn: int) -> None:
        """For ids, tokens and pauses."""
        random.seed(f"{SEED} {turn}")
        ids.reseed()
        ids.entropy, ids.wall = random.Random(f"{SEED} {turn}").randbytes, lambda: (1_700_000_000 + turn) * 10**9


def _census(rows: Dump, facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {table: len(found) for table, found in rows.items() if table not in _UNCOUNTED}
    found["told"] = Counter(state for _, state in facts.told)
    found["states"] = Counter((job.state, job.queue, job.attempts, job.generation) for job in facts.jobs.values())
    found["spent"] = sorted((line.budget, line.dimension, line.spent) for line in facts.of("budget_line"))
    return found


class SqliteGround(Ground):
    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self._numbers = itertools.count()
        clock = ManualClock()
        store = SqliteStore(self._folder / "base.db", clock=clock, durable=False)
        self.stage = furnish(store, clock)
        self._began = clock.now()
        self._tables = [name for (name,) in store._session().writer.connection.execute(_TABLES)]
        self.base = self.dump()
        store.close()
        self._path = self._folder / "base.db"

    def dump(self) -> Dump:
        """Without the ceremony of an operation, of which there would be one for each table."""

        async def gather(tx: Any) -> Dump:
            ask = tx._cursor.execute
            return {
                table: set(ask(f"select {SHOWN.get(table, '*')} from {table}").fetchall()) for table in self._tables
            }

        return self.stage.store.read(Op(gather))

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder)

    def _put_back(self) -> None:
        self._forget()
        self._path = self._folder / f"{next(self._numbers)}.db"
        shutil.copyfile(self._folder / "base.db", self._path)
        # As large as ever, and laid once.
        os.link(self._folder / "base.db-ballast", f"{self._path}-ballast")
        self._open(self._clock())

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
    """The store stays open from trial to trial: it is to go on after each of them."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
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
        self._everything = " union all ".join(
            f"select '{table}', row({SHOWN.get(table, 't.*')})::text from public.{table} as t" for table in self._tables
        )
        self.base = self.dump()

    def dump(self) -> Dump:
        """In one question, because each takes longer than what it brings."""
        found: Dump = {table: set() for table in self._tables}
        for table, row in self._admin.execute(self._everything.encode(), prepare=True).fetchall():
            found[table].add(row)
        return found

    def close(self) -> None:
        super().close()
        self._admin.close()

    def fresh(self) -> Stage:
        super().fresh()
        # With a connection that is open already: its first words would be points of the first trial alone.
        self.stage.store.write(Op(queries.clock))
        return self.stage

    def _put_back(self) -> None:
        now = self.dump()
        parts = [f"delete from public.{t}; insert into public.{t} overriding system value select * from snap.{t}"
                 for t in self._tables if now[t] != self.base[t] or t in SHOWN]  # fmt: skip
        self._admin.execute(("begin;" + ";".join(parts) + ";commit").encode())
        self.stage.clock.step((self._began - self.stage.clock.now()) / SECOND)

    def _open(self, clock: ManualClock) -> None:
        self.stage.use(self._store(clock))

    def _store(self, clock: ManualClock) -> Store:
        return PostgresStore(self._dsn, clock=clock, notify=False, pool_size=4)
