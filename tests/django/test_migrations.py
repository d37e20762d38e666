"""The schema is part of Django's migrations, and agrees with Holdfast's own about what has run."""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.optimizer import MigrationOptimizer
from django.test import override_settings

from holdfast.config import load
from holdfast.contrib.django import schema
from holdfast.contrib.django.location import store_text
from holdfast.contrib.django.project import DjangoApp
from holdfast.contrib.django.schema import ApplySchema
from holdfast.errors import SchemaMismatch
from holdfast.runtime.database import Database
from holdfast.storage import migrate
from holdfast.storage.postgres import migrations as postgres_migrations
from tests.django.conftest import Project, add_database, in_postgres, remove_database

DIALECTS: list[migrate.Dialect] = ["sqlite", "postgres"]


def operations() -> list[ApplySchema]:
    """Every operation of our migrations that applies a range of Holdfast's."""
    nodes = MigrationLoader(None).graph.leaf_nodes("holdfast")
    plan = [key for node in nodes for key in MigrationLoader(None).graph.forwards_plan(node) if key[0] == "holdfast"]
    migrations = [import_module(f"holdfast.contrib.django.migrations.{name}").Migration for _, name in plan]
    return [one for migration in migrations for one in migration.operations if isinstance(one, ApplySchema)]


def applied(alias: str) -> set[int]:
    return schema.versions(connections[alias])


def known(alias: str) -> set[int]:
    return {one.version for one in migrate.migrations(schema.dialect_of(connections[alias]))}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_migration_of_holdfast_has_a_migration_of_django(dialect: migrate.Dialect) -> None:
    covered = [n for one in operations() for n in range(one.first, one.last + 1)]
    missing = {one.version for one in migrate.migrations(dialect)} - set(covered)
    last = covered[-1]
    assert not missing, (
        f"add src/holdfast/contrib/django/migrations/ for the new schema, with ApplySchema({last + 1}, {max(missing)})"
    )
    assert covered == list(range(1, last + 1)), "the ranges follow each other"


def test_the_models_need_no_further_migration() -> None:
    call_command("makemigrations", "holdfast", check=True, dry_run=True, verbosity=0)


def test_migrate_makes_a_schema_that_holdfast_finds_sound(project: Project) -> None:
    assert applied(project.alias) == known(project.alias)
    with Database(project.app.config) as database:
        assert [finding for finding in database.verify() if finding.broken_by] == []


def test_only_the_database_of_the_jobs_has_the_tables(project: Project) -> None:
    assert applied(project.other) == set()


def test_holdfasts_own_migrate_finds_nothing_to_do_after_djangos(project: Project) -> None:
    with Database(project.app.config) as database:
        assert database.migrate() == []


def test_djangos_migrate_finds_nothing_to_do_after_holdfasts_own(blank: str) -> None:
    with Database(load({"store": store_text(blank)})) as database:
        assert len(database.migrate()) == len(known(blank))
    call_command("migrate", "holdfast", database=blank, verbosity=0)
    assert applied(blank) == known(blank)


def test_an_older_schema_gets_only_what_it_lacks(blank: str) -> None:
    connection, every = connections[blank], sorted(known(blank))
    older = every[: len(every) // 2]
    with connection.schema_editor() as editor:
        first = schema.apply(editor, None, 1, older[-1])
    with connection.schema_editor() as editor:
        rest = schema.apply(editor, None, 1, every[-1])
    assert [int(name[:4]) for name in first] == older
    assert [int(name[:4]) for name in rest] == every[len(older) :]


def test_both_kinds_of_migrations_wait_for_each_other_on_postgres() -> None:
    assert schema.LOCK == postgres_migrations._LOCK


def test_a_failed_migration_leaves_nothing_behind(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = schema.migration_texts(schema.dialect_of(connections[blank]))
    broken = [*texts[:-1], (texts[-1][0], "create table holdfast_broken (a integer);\ncreate tabel;")]
    monkeypatch.setattr(schema, "migration_texts", lambda _: broken)
    with pytest.raises(Exception, match="tabel"):
        call_command("migrate", "holdfast", database=blank, verbosity=0)
    monkeypatch.undo()
    assert applied(blank) == set()
    call_command("migrate", "holdfast", database=blank, verbosity=0)
    assert applied(blank) == known(blank)


def test_migrate_to_zero_removes_everything_and_migrate_brings_it_back(blank: str) -> None:
    call_command("migrate", "holdfast", database=blank, verbosity=0)
    call_command("migrate", "holdfast", "zero", database=blank, verbosity=0)
    with connections[blank].cursor() as cursor:
        names = connections[blank].introspection.table_names(cursor, include_views=True)
    assert [name for name in names if name.startswith("holdfast_")] == []
    call_command("migrate", "holdfast", database=blank, verbosity=0)
    assert applied(blank) == known(blank)


def test_sqlmigrate_prints_the_schema(blank: str) -> None:
    printed = StringIO()
    call_command("sqlmigrate", "holdfast", "0001", database=blank, stdout=printed)
    assert "create table holdfast_job" in printed.getvalue()
    assert applied(blank) == set()


def test_ranges_can_be_squashed() -> None:
    parts = [ApplySchema(1, 10), ApplySchema(11, 20), ApplySchema(21, 33)]
    [squashed] = MigrationOptimizer().optimize(parts, "holdfast")
    assert (squashed.first, squashed.last) == (1, 33)
    assert squashed.deconstruct() == ("ApplySchema", (1, 33), {})


def test_without_migrate_an_enqueue_says_what_to_run(blank: str) -> None:
    app = DjangoApp()
    task = app.task(name="work")(lambda: None)
    with pytest.raises(SchemaMismatch, match="manage.py migrate"):
        task.enqueue()
    assert applied(blank) == set(), "nothing was created behind Django's back"
    app.close()


def test_a_file_is_in_wal_mode_after_migrate(sqlite_project: str) -> None:
    with connections[sqlite_project].cursor() as cursor:
        assert cursor.execute("pragma journal_mode").fetchone() == ("wal",)


# -- a schema of its own, on Postgres


@pytest.fixture
def in_schema(blank_postgres_dsn: str) -> Any:
    add_database("pg_schema", in_postgres(blank_postgres_dsn))
    with override_settings(HOLDFAST={"DATABASE": "pg_schema", "SCHEMA": "work"}):
        call_command("migrate", database="pg_schema", verbosity=0)
        yield "pg_schema"
    remove_database("pg_schema")


def test_the_tables_are_in_the_schema_that_is_named(in_schema: str) -> None:
    with connections[in_schema].cursor() as cursor:
        cursor.execute("select distinct schemaname from pg_tables where tablename like 'holdfast%'")
        assert cursor.fetchall() == [("work",)]
        cursor.execute("select schemaname from pg_tables where tablename = 'auth_group'")
        assert cursor.fetchall() == [("public",)]


def test_a_transaction_of_django_reaches_the_schema(in_schema: str) -> None:
    app = DjangoApp()

    @app.task
    def work() -> None: ...

    connections[in_schema].close()
    with transaction.atomic(using=in_schema):
        job = work.enqueue()
    assert app.jobs.get(job.id).state == "ready"
    assert app.drain().succeeded == 1
    app.close()
