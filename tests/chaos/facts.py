"""Everything that can be read from a store, in one snapshot, as frozen values that are the same for both databases."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from holdfast.storage.ops.jobs import queries
from holdfast.storage.ops.store import Finding, verify
from holdfast.storage.port import Op, Store, Tx
from holdfast.storage.statements import Statement

from .ledger import Line

Shape = Mapping[str, tuple[str, ...]]
Record = Any
"""A row as a named tuple with the columns' names."""

_COLUMNS = Statement(
    "columns",
    """select m.name, c.name from sqlite_master as m, pragma_table_info(m.name) as c
        where m.name like 'holdfast\\_%' escape '\\' and (m.type = 'table' or m.name = 'holdfast_any_job')
        order by m.name, c.cid""",
    """select table_name::text, column_name::text from information_schema.columns
        where table_schema = current_schema() and table_name like 'holdfast\\_%'
          and (table_name = 'holdfast_any_job'
               or table_name in (select tablename from pg_tables where schemaname = current_schema()))
        order by table_name, ordinal_position""",
)
# Figures that no promise speaks of, and secrets.
_LEFT_OUT = {"holdfast_migration", "holdfast_blob_part", "holdfast_key", "holdfast_metric", "holdfast_tally"}


@dataclass(frozen=True)
class Facts:
    """What a store holds, what its own check finds, and what was seen outside."""

    now: int
    tables: Mapping[str, tuple[Record, ...]]
    findings: tuple[Finding, ...] = ()
    ledger: tuple[Line, ...] = ()
    forgotten: frozenset[str] = frozenset()
    """Jobs that may be missing: deleted or pruned on purpose."""
    unserved: frozenset[str] = frozenset()
    """Queues that nobody works on."""
    strict_budgets: frozenset[str] = frozenset()
    """Names of budgets that nobody spends from without a reservation of at least as much."""

    def of(self, table: str) -> tuple[Record, ...]:
        return self.tables.get(f"holdfast_{table}", ())

    @cached_property
    def jobs(self) -> dict[str, Record]:
        """Those that are live or have ended; the store's own check tells of any other."""
        return {job.id: job for job in self.of("any_job") if job.state is not None}

    @cached_property
    def attempts(self) -> dict[str, list[Record]]:
        return grouped(self.of("attempt"), lambda row: row.job_id)

    @cached_property
    def told(self) -> list[tuple[str, str]]:
        """Jobs and the states that the log tells they came to, as often as it does."""
        found: list[tuple[str, str]] = []
        for row in (*self.of("event"), *self.of("event_inbox")):
            if row.body is not None:
                found += [(facts[0], facts[5]) for facts in json.loads(row.body)]
            elif row.job is not None and row.state is not None:
                found.append((row.job, row.state))
        return found

    @cached_property
    def lines(self) -> dict[str, list[tuple[int, Line]]]:
        """The ledger by job, each line with its place."""
        return grouped(enumerate(self.ledger), lambda placed: placed[1].job)


def read_facts(store: Store, ledger: Iterable[Line] = (), *, shape: Shape | None = None, **known: Any) -> Facts:
    """One snapshot of the store, with what is known besides."""
    return replace(store.read(Op(lambda tx: gather(tx, shape))), ledger=tuple(ledger), **known)


async def gather(tx: Tx, shape: Shape | None = None) -> Facts:
    """Every row, and what the store's own check says of them."""
    return Facts(await queries.clock(tx), await rows(tx, shape), tuple(await verify(tx, ())))


async def rows(tx: Tx, shape: Shape | None = None) -> dict[str, tuple[Record, ...]]:
    """Every row by table. The shape takes longer to ask for than a small store to read."""
    found = {}
    for table, names in (shape or await shape_of(tx)).items():
        kind, text = _kind(table, names)
        found[table] = tuple(map(kind, await tx.all(text)))
    return found


async def shape_of(tx: Tx) -> Shape:
    """The columns of each table, in order."""
    columns: dict[str, tuple[str, ...]] = {}
    for table, column in await tx.all(_COLUMNS):
        if table not in _LEFT_OUT:
            columns[table] = (*columns.get(table, ()), column)
    return columns


@cache
def _kind(table: str, names: tuple[str, ...]) -> tuple[Callable[[tuple[Any, ...]], Record], Statement]:
    kind = namedtuple(table, names)  # type: ignore[misc]
    text = f"select {', '.join(names)} from {table}"
    return kind._make, Statement(table, text, text)


def grouped(rows: Iterable[Any], key: Callable[[Any], str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
