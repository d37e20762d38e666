"""`holdfast db` on both stores: the schema from nothing to nothing, and what `verify` finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast.runtime.database import Database
from tests.acceptance.cli_kit import call
from tests.acceptance.conftest import url_of


@pytest.fixture(params=["sqlite", "postgres"])
def blank(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store without a schema; the commands find it by the environment."""
    url = (
        str(tmp_path / "jobs.db")
        if request.param == "sqlite"
        else url_of(request.getfixturevalue("blank_postgres_dsn"))
    )
    monkeypatch.setenv("HOLDFAST_STORE", url)
    return url


@pytest.fixture
def connection(blank: str) -> Iterator[psycopg.Connection[tuple[object, ...]] | sqlite3.Connection]:
    """A way past Holdfast, for what it would refuse to write."""
    if blank.startswith("postgresql:"):
        other = psycopg.connect(blank, autocommit=True)
        yield other
        other.close()
    else:
        file = sqlite3.connect(blank, isolation_level=None)
        yield file
        file.close()


def broken_rules() -> dict[str, list[str]]:
    return {
        check["rule"]: check["broken_by"]
        for check in call("db", "verify", "--json").data["checks"]
        if not check["holds"]
    }


def test_a_store_is_created_verified_dropped_and_reset(blank: str) -> None:
    assert call("db", "create").code == 0
    assert {step["state"] for step in call("db", "status", "--json").data["migrations"]} == {"applied"}
    assert call("db", "status").code == 0
    assert call("db", "verify").code == 0
    assert call("db", "drop", "--force").out == "dropped\n"
    assert call("db", "status").code == 1
    assert call("db", "verify").code == 1
    assert call("db", "reset", "--force").code == 0
    assert call("db", "verify", "--json").data["sound"] is True


def test_migrating_twice_applies_nothing_the_second_time(blank: str) -> None:
    first, second = call("db", "migrate", "--json"), call("db", "migrate", "--json")
    assert first.data["applied"][0] == "0001_initial"
    assert second.data == {"applied": []}
    assert call("db", "migrate").out == "the schema is up to date\n"


@pytest.mark.parametrize("command", ["drop", "reset"])
def test_nothing_is_destroyed_without_force(blank: str, command: str) -> None:
    call("db", "create")
    answer = call("db", command)
    assert answer.code == 2
    assert "--force" in answer.err
    assert call("db", "status").code == 0


def test_a_drop_leaves_nothing_of_ours_and_everything_of_others(
    blank: str, connection: psycopg.Connection[tuple[object, ...]] | sqlite3.Connection
) -> None:
    call("db", "create")
    connection.execute("create table customer (id integer primary key)")
    assert call("db", "drop", "--force").code == 0
    if isinstance(connection, sqlite3.Connection):
        left = connection.execute("select name from sqlite_master where type <> 'index'").fetchall()
    else:
        left = connection.execute(
            "select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind <> 'i'"
            " union all select proname::text from pg_proc where pronamespace = 'public'::regnamespace"
        ).fetchall()
    assert left == [("customer",)]


def test_the_printed_sql_makes_a_store_that_works(
    blank: str, connection: psycopg.Connection[tuple[object, ...]] | sqlite3.Connection
) -> None:
    text = call("db", "sql").out
    if isinstance(connection, sqlite3.Connection):
        connection.executescript(text)
    else:
        connection.execute(text.encode())
    assert call("db", "status").code == 0
    assert call("db", "verify").code == 0
    app = holdfast.App(blank)

    @app.task
    def hello() -> None: ...

    assert hello.enqueue().created
    app.close()


def test_verify_names_the_jobs_that_break_a_rule(
    blank: str, connection: psycopg.Connection[tuple[object, ...]] | sqlite3.Connection
) -> None:
    call("db", "create")
    app = holdfast.App(blank)

    @app.task
    def hello() -> None: ...

    ids = {name: hello.options(dedupe_key=name).enqueue().id for name in ("ghost", "lost", "early")}
    app.close()
    connection.execute(
        f"update holdfast_live set state = 'running', due = null, owner = 'nobody' where id = '{ids['ghost']}'"
    )
    connection.execute(f"delete from holdfast_live where id = '{ids['lost']}'")
    connection.execute(f"update holdfast_live set not_before = not_before + 3600000000 where id = '{ids['early']}'")
    assert broken_rules() == {
        "every running job's worker is registered": [ids["ghost"]],
        "every job is live or has ended, and not both": [ids["lost"]],
        "no job is claimable before its time": [ids["early"]],
    }
    answer = call("db", "verify")
    assert answer.code == 1
    assert f"WRONG  every running job's worker is registered: {ids['ghost']}" in answer.out


def test_verify_names_an_index_that_is_missing(
    blank: str, connection: psycopg.Connection[tuple[object, ...]] | sqlite3.Connection
) -> None:
    call("db", "create")
    connection.execute("drop index holdfast_live_later")
    assert broken_rules() == {"the schema is whole": ["index holdfast_live_later"]}


def test_a_schema_of_a_newer_holdfast_is_told_and_not_touched(
    blank: str, connection: psycopg.Connection[tuple[object, ...]] | sqlite3.Connection
) -> None:
    call("db", "create")
    connection.execute(
        "insert into holdfast_migration (version, name, applied_at, oldest_writer) values (999, '0999_later', 1, 999)"
    )
    answer = call("db", "status", "--json")
    assert (answer.code, answer.data["migrations"][-1]["state"]) == (1, "newer")
    refused = call("db", "migrate", "--json")
    assert (refused.code, refused.data["error"]["code"]) == (5, "schema")


def test_looking_at_an_older_schema_does_not_migrate_it(blank: str) -> None:
    call("db", "create")
    call("db", "drop", "--force")
    for _ in range(2):
        assert {step["state"] for step in call("db", "status", "--json").data["migrations"]} == {"pending"}


def test_create_makes_a_postgres_database_that_is_missing(
    blank_postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(blank_postgres_dsn).replace("holdfast_test_", "holdfast_test_made_")
    monkeypatch.setenv("HOLDFAST_STORE", url)
    try:
        assert call("db", "create", "--json").data["created"] is True
        assert call("db", "create", "--json").data == {"created": False, "applied": []}
        with Database(holdfast.App(url).config) as database:
            assert all(step.applied_at for step in database.steps())
    finally:
        with psycopg.connect(blank_postgres_dsn, autocommit=True) as server:
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            server.execute(
                psycopg.sql.SQL("drop database if exists {} with (force)").format(psycopg.sql.Identifier(str(name)))
            )


def test_the_sql_of_a_dialect_needs_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    assert "with (fillfactor" in call("db", "sql", "--dialect", "postgres").out
    [first, *_] = call("db", "sql", "--dialect", "sqlite", "--json").data["migrations"]
    assert first["name"] == "0001_initial"
