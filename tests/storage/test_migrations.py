"""A store of an earlier schema is brought forward with what is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.model.schedules import ScheduleKey, Tick
from holdfast.model.values import instant_of
from holdfast.storage import migrate
from holdfast.storage.migrate import Dialect
from holdfast.storage.sqlite.schema import statements
from tests.acceptance.conftest import url_of

Run = Callable[..., list[Any]]


@pytest.fixture(params=["sqlite", "postgres"])
def past(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Dialect, Run]]:
    """A database without a schema: its address, its kind, and what runs statements in it."""
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            yield str(path), "sqlite", lambda text, *given: file.execute(text, given).fetchall()
        return
    dsn: str = request.getfixturevalue("blank_postgres_dsn")
    with psycopg.connect(dsn, autocommit=True) as server:

        def run(text: str, *given: object) -> list[Any]:
            found = server.execute(text.replace("?", "%s").encode() if given else text.encode(), given or None)
            return found.fetchall() if found.description else []

        yield url_of(dsn), "postgres", run


def migrate_to(version: int, dialect: Dialect, run: Run) -> None:
    """Make the schema as it was when that migration was the last."""
    run(migrate.CREATE_TABLE)
    for migration in migrate.migrations(dialect):
        if migration.version <= version:
            for text in statements(migration.text) if dialect == "sqlite" else [migration.text]:
                run(text)
            record = (migration.version, migration.name, 0, migration.oldest_writer)
            run(
                "insert into holdfast_migration (version, name, applied_at, oldest_writer) values (?, ?, ?, ?)", *record
            )


def test_a_tenant_that_was_a_prefix_of_a_schedules_name_becomes_its_column(past: tuple[str, Dialect, Run]) -> None:
    store, dialect, run = past
    migrate_to(31, dialect, run)
    rows = [
        ("acme/nightly", "acme"),  # as a tenant's own view named it
        ("nightly", ""),
        ("beta/nightly", "beta"),
        ("reports/weekly", ""),  # a slash of its own
        ("acme/odd", "beta"),  # an operator's, for another tenant's jobs
        ("taken", "gamma"),
        ("gamma/taken", "gamma"),  # whose short name is taken
    ]
    for at, (name, tenant) in enumerate(rows, 1):
        options = f'{{"priority": {at}, "route": {{"requires": []}}, "tenant": "{tenant}"}}'
        run(
            "insert into holdfast_schedule (name, task, payload, queue, options, expression, zone, state, missed,"
            " max_missed, overlap, jitter, cooldown, anchor, last_tick, next_tick, version, origin, fired, created_at,"
            " updated_at) values (?, 'work', '{}', 'default', ?, '0 3 * * *', 'UTC', 'active', 'one', 100, 'allow', 0,"
            " 0, 5, 6, 7, ?, 'runtime', ?, 8, 9)",
            name, options, at, at * 10,
        )  # fmt: skip
        run("insert into holdfast_cron_tick (schedule, tick, job_id) values (?, ?, ?)", name, at, f"job-{at}")
        run(
            "insert into holdfast_audit (id, at, actor, action, target_kind, target, reason, tenant)"
            " values (?, 0, 'ann', 'schedule.create', 'schedule', ?, '', ?)",
            f"audit-{at}", name, tenant,
        )  # fmt: skip
    app = holdfast.App(store)
    app.migrate()
    found = {one.key: one for one in app.schedules.list()}
    wanted = [
        ("acme", "nightly"), ("", "nightly"), ("beta", "nightly"), ("", "reports/weekly"), ("beta", "acme/odd"),
        ("gamma", "taken"), ("gamma", "gamma/taken"),
    ]  # fmt: skip
    assert sorted(found) == sorted(wanted)
    for at, one in enumerate(wanted, 1):
        key = ScheduleKey(*one)
        schedule = found[key]
        assert (schedule.version, schedule.fired, schedule.next_tick, "tenant" in schedule.options) == (
            at,
            at * 10,
            instant_of(7),
            False,
        )
        assert schedule.options["priority"] == at
        of = app.schedules.of(key.tenant) if key.tenant else app.schedules
        assert of.ticks(key.name) == [Tick(tick=instant_of(at), job_id=f"job-{at}")]
        (record,) = app.audit.list(target_kind="schedule", target=key.name, tenant=key.tenant)
        assert record.id == f"audit-{at}"
        made = of.run_now(key.name).job_id
        assert made is not None and app.jobs.get(made).tenant == key.tenant
    app.close()
