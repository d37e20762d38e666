"""Holdfast's schema as Django migrations: an operation that applies a range of Holdfast's own migrations.

The table `holdfast_migration` says which have run, whoever ran them, so `manage.py migrate` and `holdfast db migrate`
never apply one twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from django.db.migrations.operations.base import Operation
from django.db.utils import OperationalError

from ...runtime.database import migration_texts
from ...storage import migrate
from ...storage.migrate import Dialect
from ...storage.sqlite.schema import statements
from . import conf
from .untyped import connections

LOCK: Final = 4_851_637_209
"""The advisory lock that Holdfast's own migrations take on Postgres."""
_DIALECTS: Final[dict[str, Dialect]] = {"sqlite": "sqlite", "postgresql": "postgres"}
_HAS_TABLE: Final[dict[Dialect, str]] = {
    "sqlite": "select 1 from sqlite_master where type = 'table' and name = 'holdfast_migration'",
    "postgres": "select 1 where to_regclass('holdfast_migration') is not null",
}
# In an order in which nothing is dropped before the objects that depend on it.
_OURS: Final[dict[Dialect, str]] = {
    "sqlite": """
        select type, name from sqlite_master
         where type in ('table', 'view') and name like 'holdfast\\_%' escape '\\' order by type desc, name""",
    "postgres": """
        select kind, name from (
            select case relkind when 'v' then 'view' else 'table' end as kind, oid::regclass::text as name,
                   case when relkind = 'v' then 1 when relname = 'holdfast_job' then 3 else 2 end as rank
              from pg_class
             where relkind in ('v', 'r') and relnamespace = current_schema()::regnamespace
                   and relname like 'holdfast\\_%'
            union all
            select 'function', oid::regprocedure::text, 4 from pg_proc
             where pronamespace = current_schema()::regnamespace and proname like 'holdfast\\_%'
        ) ours order by rank""",
}
_ADD_TO_PATH: Final = """
    select set_config('search_path', current_setting('search_path') || %s, false)
     where current_setting('search_path') not like %s"""


class ApplySchema(Operation):
    """Apply Holdfast's migrations `first` to `last` to the database that holds the jobs; skip all others.

    Backwards from the first it removes everything. Backwards from a later one it keeps the schema as it is, which the
    version table says, so that a repeated `migrate` finds nothing to do.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: Holdfast's tables are not models."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        project = conf.read()
        if schema_editor.connection.alias == project.database:
            apply(schema_editor, project.schema, self.first, self.last)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        project = conf.read()
        if schema_editor.connection.alias == project.database and self.first == 1:
            drop(schema_editor, project.schema)

    def describe(self) -> str:
        return f"Apply Holdfast's schema {self.first:04d} to {self.last:04d}"

    def reduce(self, operation: Operation, app_label: str) -> Any:
        """Join with the next range, for squashed migrations."""
        if isinstance(operation, ApplySchema) and operation.first == self.last + 1:
            return [ApplySchema(self.first, operation.last)]
        return super().reduce(operation, app_label)


def apply(schema_editor: Any, schema: str | None, first: int, last: int) -> list[str]:
    """Apply the migrations of a range that have not run yet, in Django's transaction; return their names."""
    connection = schema_editor.connection
    dialect = dialect_of(connection)
    known = {migration.name: migration.version for migration in migrate.migrations(dialect)}
    with _in_schema(schema_editor, schema):
        applied = set() if schema_editor.collect_sql else versions(connection)
        missing = [
            (name, text)
            for name, text in migration_texts(dialect)
            if first <= known[name] <= last and known[name] not in applied
        ]
        for _, text in missing:
            # Postgres takes a whole file at once, SQLite one statement at a time.
            for statement in [text] if dialect == "postgres" else statements(text):
                schema_editor.execute(statement, params=None)
    return [name for name, _ in missing]


def drop(schema_editor: Any, schema: str | None) -> None:
    """Remove all of Holdfast's tables, views and functions."""
    connection = schema_editor.connection
    with _in_schema(schema_editor, schema), connection.cursor() as cursor:
        cursor.execute(_OURS[dialect_of(connection)])
        for kind, name in cursor.fetchall():
            schema_editor.execute(f"drop {kind} {name}", params=None)


def versions(connection: Any) -> set[int]:
    """Return the versions that a database has; none where Holdfast was never there."""
    with connection.cursor() as cursor:
        cursor.execute(_HAS_TABLE[dialect_of(connection)])
        if not cursor.fetchone():
            return set()
        cursor.execute(migrate.SELECT_VERSIONS)
        return {version for (version,) in cursor.fetchall()}


def dialect_of(connection: Any) -> Dialect:
    """Return Holdfast's name for the database of a connection."""
    if connection.vendor not in _DIALECTS:
        raise conf.WrongSetting(
            "E005",
            f"the database {connection.alias!r} is {connection.display_name}, and Holdfast needs SQLite or PostgreSQL",
            "Set HOLDFAST['DATABASE'] to the alias of such a database.",
        )
    return _DIALECTS[connection.vendor]


def find_schema(connection: Any, **_: Any) -> None:
    """Let a new connection of Django's find Holdfast's tables in a schema of their own, after the project's."""
    try:
        project = conf.read()
    except conf.WrongSetting:
        return  # reported by `manage.py check`, and by the first use
    if project.schema is None or connection.alias != project.database or connection.vendor != "postgresql":
        return
    name = connection.ops.quote_name(project.schema)
    with connection.cursor() as cursor:
        cursor.execute(_ADD_TO_PATH, [f", {name}", f"%{name}%"])


def use_wal(using: str, **_: Any) -> None:
    """After `migrate`, put a SQLite file into WAL mode, in which readers and the writer do not wait for each other.

    The first worker would do so too, but could not while a transaction is open.
    """
    connection = connections[using]
    if using == conf.read().database and connection.vendor == "sqlite" and not connection.in_atomic_block:
        # Others may be using the file; then a worker does it.
        with suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("pragma journal_mode = wal")


@contextmanager
def _in_schema(schema_editor: Any, schema: str | None) -> Iterator[None]:
    """Hold the lock that Holdfast's own migrations take, and create objects in their schema (Postgres)."""
    if schema_editor.connection.vendor != "postgresql":
        yield
        return
    schema_editor.execute(f"select pg_advisory_xact_lock({LOCK})", params=None)
    if schema is None:
        yield
        return
    name = schema_editor.quote_name(schema)
    schema_editor.execute(f"create schema if not exists {name}", params=None)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("select current_setting('search_path')")
        (before,) = cursor.fetchone()
    schema_editor.execute(f"set local search_path to {name}", params=None)
    yield
    schema_editor.execute(f"set local search_path to {before}", params=None)
