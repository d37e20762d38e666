"""Django's connection as the caller's own: atomic() keeps or undoes, and on_commit does the waking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import NotInTransaction
from holdfast.storage.port import Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from tests.patience import SOON
from tests.storage import kit, lenders

if not settings.configured:
    settings.configure(DATABASES={})
    django.setup()

from django.db import connections, transaction
from django.utils.connection import ConnectionProxy

ALIAS = "holdfast_lent"


def in_sqlite(path: str) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}


def in_postgres(dsn: str) -> dict[str, Any]:
    parts = conninfo_to_dict(dsn)
    given = {"NAME": "dbname", "USER": "user", "HOST": "host", "PASSWORD": "password", "PORT": "port"}
    return {"ENGINE": "django.db.backends.postgresql"} | {key: parts.get(name) or "" for key, name in given.items()}


@pytest.fixture(params=["sqlite", "postgres"])
def lent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Any]]:
    """A store, and Django's connection to the same database."""
    store: SqliteStore | PostgresStore
    if request.param == "sqlite":
        path = str(tmp_path / "jobs.db")
        store = SqliteStore(path)
        store.migrate()
        with lenders.lend_sqlite3(path) as connection:
            connection.execute(kit.TABLE)
        where = in_sqlite(path)
    else:
        dsn = request.getfixturevalue("noted_dsn")
        store = PostgresStore(dsn)
        where = in_postgres(dsn)
    # What Django does itself to the databases it is configured with.
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: where})[ALIAS]
    yield store, connections[ALIAS]
    connections[ALIAS].close()
    del connections[ALIAS], connections.settings[ALIAS]
    store.close()


def test_leaving_atomic_keeps_the_write_and_wakes(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    ear = store.wakeups.listen(["queue:a"])
    with transaction.atomic(using=ALIAS):
        store.within(connection, kit.insert("a"))
    assert ear.wait(SOON)
    assert store.read(kit.names()) == ["a"]


def test_the_proxy_is_as_good_as_the_connection(lent: tuple[Store, Any]) -> None:
    store, _ = lent
    with transaction.atomic(using=ALIAS):
        store.within(ConnectionProxy(connections, ALIAS), kit.insert("a"))
    assert store.read(kit.names()) == ["a"]


def test_rolling_an_atomic_block_back_undoes_the_write_and_wakes_nobody(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    ear = store.wakeups.listen(["queue:a"])
    with transaction.atomic(using=ALIAS):
        store.within(connection, kit.insert("kept"))
    while ear.wait(0.2):  # that, and what was committed before anything was lent
        pass
    with transaction.atomic(using=ALIAS):
        store.within(connection, kit.insert("a"))
        transaction.set_rollback(True, using=ALIAS)
    assert not ear.wait(0.2)
    assert store.read(kit.names()) == ["kept"]


def test_a_rolled_back_inner_block_takes_only_its_own_write(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    with transaction.atomic(using=ALIAS):
        store.within(connection, kit.insert("outer"))
        with transaction.atomic(using=ALIAS):
            store.within(connection, kit.insert("inner"))
            transaction.set_rollback(True, using=ALIAS)
    assert store.read(kit.names()) == ["outer"]


def test_outside_atomic_it_is_refused(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    with pytest.raises(NotInTransaction, match="atomic"):
        store.within(connection, kit.insert("a"))
    assert store.read(kit.names()) == []


def test_with_autocommit_off_the_callers_commit_counts(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    transaction.set_autocommit(False, using=ALIAS)
    store.within(connection, kit.insert("a"))
    assert store.read(kit.names()) == []
    transaction.commit(using=ALIAS)
    assert store.read(kit.names()) == ["a"]


def test_a_failed_operation_leaves_the_block_usable(lent: tuple[Store, Any]) -> None:
    store, connection = lent
    with transaction.atomic(using=ALIAS):
        with pytest.raises(LookupError):
            store.within(connection, kit.insert_then_fail("a"))
        store.within(connection, kit.insert("b"))
    assert store.read(kit.names()) == ["b"]
