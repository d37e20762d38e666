"""Administration of a store: its schema, health, creation and removal. Nothing is migrated automatically here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from ..client.capabilities import capabilities_of
from ..clock import SECOND
from ..config import Config
from ..model.store import Capabilities
from ..storage import migrate
from ..storage.migrate import Dialect
from ..storage.ops.jobs import queries
from ..storage.ops.store import Finding, applied_migrations, probe_write, verify
from ..storage.port import Op, Value
from .opening import create_if_missing, dialect_of, open_store

__all__ = ["Database", "Finding", "MigrationStep", "migration_texts"]

_NOW: Final[dict[Dialect, str]] = {
    "sqlite": "cast(strftime('%s', 'now') as integer) * 1000000",
    "postgres": "(extract(epoch from now()) * 1000000)::bigint",
}


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """A migration, and when it was applied (microseconds), if it was; `known` is False for one of a newer Holdfast."""

    version: int
    name: str
    applied_at: int | None
    known: bool = True


class Database:
    """A store to administer. Close it when done, or use it as a context manager."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.dialect: Final[Dialect] = dialect_of(config)
        self._store = open_store(config, auto_migrate=False)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()

    def steps(self) -> list[MigrationStep]:
        """Return every migration, in order, including those that a newer Holdfast has applied."""
        applied = {found.version: found for found in self._store.read(Op(applied_migrations))}
        known = migrate.migrations(self.dialect)
        steps = [
            MigrationStep(m.version, m.name, applied[m.version].at if m.version in applied else None) for m in known
        ]
        newer = applied.keys() - {m.version for m in known}
        return steps + [MigrationStep(v, applied[v].name, applied[v].at, known=False) for v in sorted(newer)]

    def migrate(self) -> list[str]:
        """Bring the schema up to date; return the names of the migrations applied."""
        return self._store.migrate()

    def create(self) -> tuple[bool, list[str]]:
        """Create the database if missing, and its schema; return whether it was created, and the migrations applied."""
        made = create_if_missing(self._config)
        return made, self._store.migrate()

    def drop(self) -> None:
        """Remove every job and the schema. The database and its other contents stay."""
        self._store.drop()

    def verify(self) -> list[Finding]:
        """Check every rule of the schema and its rows; return what breaks each."""
        steps = self.steps()
        wrong = tuple(step.name for step in steps if step.applied_at is None or not step.known)
        if wrong:
            return [Finding("the schema is the one of this Holdfast", wrong)]
        expected = migrate.objects(self.dialect)
        return self._store.read(Op(lambda tx: verify(tx, expected), slow=True))

    def describe(self) -> dict[str, Value]:
        """Return versions, settings and sizes."""
        return self._store.describe()

    def capabilities(self) -> Capabilities:
        """Return what the store supports, and its limits."""
        return capabilities_of(self._store)

    def probe_write(self) -> float:
        """Make a test write; return the seconds it took."""
        began = time.perf_counter()
        self._store.write(Op(probe_write))
        return time.perf_counter() - began

    def clock_difference(self) -> float:
        """Return the seconds by which the store's clock is ahead of this machine's."""
        before = time.time()
        store = self._store.read(Op(queries.clock)) / SECOND
        return store - (before + time.time()) / 2


def migration_texts(dialect: Dialect) -> list[tuple[str, str]]:
    """Return the SQL of every migration by name, in order, each with the insert that records it."""
    texts = []
    for found in migrate.migrations(dialect):
        values = f"{found.version}, '{found.name}', {found.oldest_writer}, {_NOW[dialect]}"
        record = f"insert into holdfast_migration (version, name, oldest_writer, applied_at) values ({values})"  # noqa: S608
        texts.append((found.name, f"{migrate.CREATE_TABLE};\n\n{found.text.rstrip()}\n\n{record};"))
    return texts
