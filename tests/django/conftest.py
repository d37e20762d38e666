"""A Django project in this process, with a real database of each kind. It needs a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from psycopg.conninfo import conninfo_to_dict

from holdfast.contrib.django.project import DjangoApp
from tests.django.shop import Shop

APPS = ["django.contrib.contenttypes", "django.contrib.auth", "holdfast.contrib.django"]

if not settings.configured:
    settings.configure(DATABASES={}, INSTALLED_APPS=APPS, USE_TZ=True, TIME_ZONE="UTC")
    django.setup()
elif settings.INSTALLED_APPS != APPS:
    raise pytest.UsageError("other tests have configured Django; run tests/django in a process of its own")


@dataclass(frozen=True)
class Project:
    """A project whose jobs are in the database `alias`. `other` is another database of the same kind."""

    alias: str
    other: str
    app: DjangoApp


def in_sqlite(path: Path) -> dict[str, Any]:
    options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": options}


def in_postgres(dsn: str) -> dict[str, Any]:
    parts = conninfo_to_dict(dsn)
    given = {"NAME": "dbname", "USER": "user", "HOST": "host", "PASSWORD": "password", "PORT": "port"}
    return {"ENGINE": "django.db.backends.postgresql"} | {key: parts.get(name) or "" for key, name in given.items()}


def add_database(alias: str, entry: dict[str, Any]) -> None:
    """Add a database, as Django does with those of its settings."""
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]


def remove_database(alias: str) -> None:
    connections[alias].close()
    del connections[alias], connections.settings[alias]


@pytest.fixture(scope="session")
def sqlite_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("project")
    yield from _migrated("lite", in_sqlite(folder / "project.db"), in_sqlite(folder / "other.db"))


@pytest.fixture(scope="session")
def postgres_project(postgres_databases: Any) -> Iterator[str]:
    dsns = [postgres_databases.create() for _ in range(2)]
    yield from _migrated("pg", *map(in_postgres, dsns))
    for dsn in dsns:
        postgres_databases.drop(dsn)


def _migrated(alias: str, entry: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    add_database(alias, entry)
    add_database(f"{alias}_other", other)
    with override_settings(HOLDFAST={"DATABASE": alias}):
        call_command("migrate", database=alias, verbosity=0)
        call_command("migrate", database=f"{alias}_other", verbosity=0)
    yield alias
    remove_database(alias)
    remove_database(f"{alias}_other")


@pytest.fixture(params=["sqlite", "postgres"])
def project(request: pytest.FixtureRequest) -> Iterator[Project]:
    """A fresh app on a database that Django has migrated."""
    alias = request.getfixturevalue(f"{request.param}_project")
    with override_settings(HOLDFAST={"DATABASE": alias}):
        app = DjangoApp()
        yield Project(alias, f"{alias}_other", app)
        app.close()
    for name in (alias, f"{alias}_other"):
        connections[name].close()


@pytest.fixture(params=["sqlite", "postgres"])
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The alias of a fresh database that nothing has migrated."""
    alias = f"blank_{request.param}"
    if request.param == "sqlite":
        add_database(alias, in_sqlite(tmp_path / "blank.db"))
    else:
        add_database(alias, in_postgres(request.getfixturevalue("blank_postgres_dsn")))
    with override_settings(HOLDFAST={"DATABASE": alias}):
        yield alias
    remove_database(alias)


# -- the example project as programs


@pytest.fixture(scope="session")
def sqlite_shop_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the example has migrated, which is only copied."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.manage("migrate")
    return shop.folder / "shop.db"


@pytest.fixture(scope="session")
def postgres_shop_template(postgres_databases: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    dsn = postgres_databases.create()
    Shop(tmp_path_factory.mktemp("shop"), dsn).manage("migrate")
    yield dsn
    postgres_databases.drop(dsn)


@pytest.fixture
def sqlite_shop(sqlite_shop_template: Path, tmp_path: Path) -> Shop:
    """The example on a SQLite file."""
    shop = Shop(tmp_path)
    shutil.copy(sqlite_shop_template, shop.folder)
    return shop


@pytest.fixture
def postgres_shop(postgres_databases: Any, postgres_shop_template: str, tmp_path: Path) -> Iterator[Shop]:
    """The example on Postgres."""
    dsn = postgres_databases.create(postgres_shop_template)
    yield Shop(tmp_path, dsn)
    postgres_databases.drop(dsn)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """The example, migrated, on each store."""
    found: Shop = request.getfixturevalue(f"{request.param}_shop")
    return found
