"""The migrations that exist and those still to run, for either database. Pure but for reading the package's own files.

A migration is `migrations/<dialect>/NNNN_name.sql`. Each runs once, in order, in one transaction with its row in
`holdfast_migration`, under a lock that the dialect's runner takes. A version this code does not know was written by
a newer one. It says in its row which older code may still write beside it (a line `-- oldest writer: NNNN` in its
file; without one, none may), so that a fleet can be upgraded process by process.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Literal, TypeAlias

from ..errors import SchemaMismatch

Dialect: TypeAlias = Literal["sqlite", "postgres"]

# Valid in both databases. The runner executes it first, under its lock.
CREATE_TABLE: Final = (
    "create table if not exists holdfast_migration"
    " (version integer not null primary key, name text not null, applied_at bigint not null,"
    " oldest_writer integer not null)"
)
# The first version of this table had no column for writers: any writer must know every migration it lists.
ADD_OLDEST_WRITER: Final = "alter table holdfast_migration add column oldest_writer integer not null default 1"
SELECT_VERSIONS: Final = "select version from holdfast_migration order by 1"

_OBJECT = re.compile(
    r"^(create|drop) (?:unique )?(table|index|view) (?:if (?:not )?exists )?(holdfast_\w+)", re.MULTILINE
)
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_OLDEST_WRITER = re.compile(r"^-- oldest writer: (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    text: str

    @property
    def oldest_writer(self) -> int:
        """Return the last version that code must know to write to a database that has this migration."""
        match = _OLDEST_WRITER.search(self.text)
        return int(match[1]) if match else self.version


def select_applied(dialect: Dialect) -> str:
    """Return the query for the versions that concern this code: those it knows, and newer ones that bar its writes."""
    latest = migrations(dialect)[-1].version
    return f"select version from holdfast_migration where version <= {latest} or oldest_writer > {latest} order by 1"  # noqa: S608


def pending(applied: Collection[int], dialect: Dialect) -> list[Migration]:
    """Return the migrations still to run, in order. Raises SchemaMismatch if the database is newer than this code."""
    known = migrations(dialect)
    if newer := sorted(set(applied) - {migration.version for migration in known}):
        raise SchemaMismatch(
            f"the database has schema version {newer[-1]:04d}, this Holdfast knows {known[-1].version:04d};"
            " upgrade Holdfast here, or use another database",
            backend=dialect,
        )
    return [migration for migration in known if migration.version not in applied]


def check(applied: Collection[int], dialect: Dialect, where: str = "the database") -> None:
    """Raise SchemaMismatch unless the schema is exactly the one this code writes."""
    if missing := pending(applied, dialect):
        known = len(migrations(dialect))
        lacks = f"{len(missing)} of {known} migrations" if len(missing) < known else "Holdfast's tables"
        message = f'{where} lacks {lacks}; run "holdfast db migrate", or call app.migrate() at start-up'
        raise SchemaMismatch(message, backend=dialect)


@cache
def objects(dialect: Dialect) -> frozenset[tuple[str, str]]:
    """Return the tables, indexes and views that exist when every migration has run, each as its kind and name."""
    found = {("table", "holdfast_migration")}
    for migration in migrations(dialect):
        for verb, kind, name in _OBJECT.findall(migration.text):
            (found.add if verb == "create" else found.discard)((kind, name))
    return frozenset(found)


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """Return every migration of a dialect, in order."""
    found = [
        Migration(int(match[1]), file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in resources.files(__package__ or "holdfast.storage").joinpath("migrations", dialect).iterdir()
        if (match := _FILE.match(file.name))
    ]
    found.sort(key=lambda migration: migration.version)
    if len({migration.version for migration in found}) != len(found):
        raise RuntimeError(f"two migrations of {dialect} have the same number")
    return tuple(found)
