"""Migrations and schemas on Postgres."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.errors import (
    ConfigError,
    SchemaMismatch,
)
from holdfast.storage import migrate
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.postgres import store as postgres_store
from tests.storage import kit

EVERY_MIGRATION = [migration.name for migration in migrate.migrations("postgres")]


def test_a_blank_database_says_to_migrate(blank_postgres_dsn: str) -> None:
    store = PostgresStore(blank_postgres_dsn)
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        store.write(kit.insert("a"))
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        asyncio.run(store.awrite_list(kit.insert_list(["a"])))
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        store.read(kit.names())
    assert store.migrate() == EVERY_MIGRATION
    assert store.migrate() == []
    store.close()


def test_a_schema_without_tables_is_named(blank_postgres_dsn: str) -> None:
    store = PostgresStore(blank_postgres_dsn, schema="nope")
    with pytest.raises(SchemaMismatch, match="schema 'nope' of the database lacks Holdfast's tables"):
        store.write(kit.insert("a"))
    store.close()


def test_a_newer_schema_refuses_to_be_written(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn) as connection:
        connection.execute("insert into holdfast_migration values (9999, 'from the future', 0, 9999)")
    with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
        store.write(kit.insert("a"))
    assert store.read(kit.names()) == []


def test_a_schema_that_becomes_newer_under_a_running_program_is_not_written_any_more(
    store: PostgresStore, noted_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "_TRUSTED", 0.0)
    store.write(kit.insert("before"))
    with psycopg.connect(noted_dsn) as connection:
        connection.execute("insert into holdfast_migration values (9999, 'from the future', 0, 9999)")
    with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
        store.write(kit.insert("after"))
    with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
        asyncio.run(store.awrite(kit.insert("after")))
    assert store.read(kit.names()) == ["before"]


def test_a_newer_schema_that_names_this_version_as_a_writer_is_written(store: PostgresStore, noted_dsn: str) -> None:
    latest = migrate.migrations("postgres")[-1].version
    with psycopg.connect(noted_dsn) as connection:
        connection.execute("insert into holdfast_migration values (9999, 'from the future', 0, %s)", (latest,))
    store.write(kit.insert("a"))
    assert store.migrate() == []


def test_processes_that_migrate_at_once_do_it_once(blank_postgres_dsn: str) -> None:
    stores = [PostgresStore(blank_postgres_dsn, notify=False) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda store: store.migrate(), stores))
    assert sorted(done) == [[], [], [], EVERY_MIGRATION]
    for store in stores:
        store.close()


def test_a_schema_of_its_own_is_made_and_used(blank_postgres_dsn: str) -> None:
    store = PostgresStore(blank_postgres_dsn, schema="jobs", notify=False)
    store.migrate()
    assert store.describe()["schema"] == "jobs"
    with psycopg.connect(blank_postgres_dsn) as connection:
        assert connection.execute("select to_regclass('jobs.holdfast_job') is not null").fetchone() == (True,)
    store.close()


@pytest.mark.parametrize("schema", ["", "Jobs", "a b", "x; drop table y", "1a", "a" * 42])
def test_a_schema_with_another_alphabet_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        PostgresStore("dbname=x", schema=schema)


def test_describe_tells_versions_and_no_secrets(store: PostgresStore) -> None:
    facts = store.describe()
    assert facts["schema_version"] == migrate.migrations("postgres")[-1].version
    assert str(facts["driver"]).startswith("psycopg 3")
    assert "password" not in str(facts)
