"""`manage.py check` reports wrong settings, each with an id and with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connections
from django.test import override_settings

from holdfast.contrib.django.project import DjangoApp
from holdfast.errors import ConfigError
from tests.django.conftest import Project, add_database, in_sqlite, remove_database


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> Iterator[None]:
    add_database("jobs", in_sqlite(tmp_path / "jobs.db"))
    yield
    remove_database("jobs")


def work() -> None: ...


def found(holdfast: Any) -> list[tuple[str, str, str]]:
    """What the checks say of a setting: id, message and hint."""
    with override_settings(HOLDFAST=holdfast):
        return [(one.id or "", one.msg, one.hint or "") for one in run_checks(tags=["holdfast"])]


def test_right_settings_are_not_reported() -> None:
    assert found({"DATABASE": "jobs", "CONCURRENCY": 50, "ROUTES": {"mail.*": "mail"}, "DURABLE": False}) == []


@pytest.mark.parametrize(
    ("holdfast", "check", "message", "hint"),
    [
        ([], "E001", "HOLDFAST is a list, not a dict", "Write HOLDFAST"),
        ({"CONCURENCY": 5}, "E002", "HOLDFAST has no key 'CONCURENCY'", "Did you mean 'CONCURRENCY'?"),
        ({"concurrency": 5}, "E002", "no key 'concurrency'", "Did you mean 'CONCURRENCY'?"),
        ({"STORE": "jobs.db"}, "E002", "no key 'STORE'", "DATABASE names an alias"),
        ({"CONCURRENCY": "many"}, "E003", "HOLDFAST['CONCURRENCY']: concurrency is 'many'", "Give one, such as"),
        ({"DURABLE": "yes"}, "E003", "durable is 'yes'", "Use True or False"),
        ({"DATABASE": 1}, "E003", "HOLDFAST['DATABASE'] is 1", "alias of DATABASES"),
        ({"SCHEMA": ""}, "E003", "HOLDFAST['SCHEMA'] is ''", "Give a name"),
        ({"ROUTES": ["mail"]}, "E003", "HOLDFAST['ROUTES'] is ['mail']", "mail.*"),
        ({"TENANT": "nowhere.at_all"}, "E003", "No module named 'nowhere'", "dotted path"),
        ({"TENANT": 5}, "E003", "HOLDFAST['TENANT'] is 5", "function"),
        ({"DATABASE": "elsewhere"}, "E004", "DATABASES has no such alias", "It has "),
        ({"DATABASE": "mysql"}, "E005", "is MySQL, and Holdfast needs SQLite or PostgreSQL", "HOLDFAST['DATABASE']"),
        ({"DATABASE": "memory"}, "E006", "is in memory", "Give it a file"),
        ({"DATABASE": "nameless"}, "E004", "DATABASES['nameless'] has no NAME", "Give it a file"),
        ({"DATABASE": "jobs", "SCHEMA": "work"}, "E007", "HOLDFAST['SCHEMA'] is for PostgreSQL", "Leave it out"),
        ({"DATABASE": "jobs", "POOL_SIZE": 5}, "E007", "HOLDFAST['POOL_SIZE'] is for PostgreSQL", "Leave it out"),
        ({"DATABASE": "deferred"}, "W001", "begin deferred", '"transaction_mode": "IMMEDIATE"'),
    ],
)
def test_a_wrong_setting_is_reported_with_what_to_do(holdfast: Any, check: str, message: str, hint: str) -> None:
    others = {
        "mysql": {"ENGINE": "tests.django.mysql", "NAME": "jobs"},
        "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        "nameless": {"ENGINE": "django.db.backends.sqlite3"},
        "deferred": {"ENGINE": "django.db.backends.sqlite3", "NAME": "jobs.db"},
    }
    if isinstance(holdfast, dict):
        holdfast = {"DATABASE": "jobs", **holdfast}
    for alias, entry in others.items():
        add_database(alias, entry)
    try:
        [(id, said, advice)] = found(holdfast)
    finally:
        for alias in others:
            remove_database(alias)
    assert id == f"holdfast.{check}"
    assert message in said
    assert hint in advice


def test_every_problem_is_reported_at_once() -> None:
    assert [id for id, _, _ in found({"A": 1, "B": 2, "LEASE": "long"})] == ["holdfast.E002"] * 2 + ["holdfast.E003"]


def test_a_variable_that_names_another_store_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "elsewhere.db")
    assert [id for id, _, _ in found({"DATABASE": "jobs"})] == ["holdfast.E009"]
    with override_settings(HOLDFAST={"DATABASE": "jobs"}), pytest.raises(ConfigError, match="unset it"):
        DjangoApp().open()


@pytest.mark.parametrize(
    ("holdfast", "message"),
    [
        ({"CONCURENCY": 5}, "HOLDFAST has no key 'CONCURENCY'; did you mean 'CONCURRENCY'"),
        ({"DATABASE": "jobs", "SCHEMA": "work"}, "schema is for Postgres, and the store is SQLite"),
    ],
)
def test_tasks_can_be_declared_under_wrong_settings_and_the_first_use_says_what_is_wrong(
    holdfast: dict[str, Any], message: str
) -> None:
    with override_settings(HOLDFAST=holdfast):
        app = DjangoApp()
        task = app.task(work)
        with pytest.raises(ConfigError, match=message):
            task.enqueue()


def test_settings_reach_the_app(project: Project) -> None:
    given = {"DATABASE": project.alias, "CONCURRENCY": 7, "ROUTES": {"mail.*": "post"}, "TENANT": lambda: "acme"}
    with override_settings(HOLDFAST=given):
        app = DjangoApp()
    assert app.config.worker.concurrency == 7
    task = app.task(name="mail.send")(work)
    job = app.jobs.get(task.enqueue().id)
    assert (job.queue, job.tenant) == ("post", "acme")
    app.close()


def test_a_project_behind_a_pool_prepares_and_listens_to_nothing_unless_it_says_so(
    postgres_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections[postgres_project].settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    direct = {"LISTEN_DSN": "postgresql://localhost/shop"}
    said = {"PREPARE": True, "NOTIFY": True}
    for given, found in (({}, (False, False)), (direct, (False, True)), (said, (True, True))):
        with override_settings(HOLDFAST={"DATABASE": postgres_project, **given}):
            config = DjangoApp().config
        assert (config.prepare, config.notify) == found


def test_the_schema_is_not_migrated_behind_djangos_back(project: Project) -> None:
    with pytest.raises(ConfigError, match="manage.py migrate"):
        project.app.migrate()
