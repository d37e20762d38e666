"""A store that an earlier Holdfast made, and processes of it beside those of today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.runtime.database import Database
from holdfast.storage import migrate
from tests.acceptance.conftest import url_of
from tests.acceptance.fleet import until
from tests.chaos.check import check, report
from tests.chaos.dials import Figure
from tests.chaos.environment_faults.crew import unfinished
from tests.chaos.environment_faults.past import Times, make_and_crash, times
from tests.chaos.facts import Facts, read_facts

pytestmark = pytest.mark.thorough

ENDS = ("succeeded", "failed", "cancelled", "expired")


@pytest.fixture(params=["sqlite", "postgres"])
def past(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Times]:
    sqlite = request.param == "sqlite"
    store = str(tmp_path / "jobs.db") if sqlite else url_of(request.getfixturevalue("blank_postgres_dsn"))
    with times(store, tmp_path) as it:
        yield it


@pytest.fixture
def app(past: Times) -> Iterator[holdfast.App]:
    it = holdfast.App(past.store)
    yield it
    it.close()


@pytest.mark.timeout(300)
def test_a_store_of_the_first_schema_is_migrated_and_all_its_jobs_run(app: holdfast.App, past: Times) -> None:
    running = make_and_crash(past, "first")
    with Database(app.config) as database:
        assert [step.version for step in database.steps() if step.applied_at] == [1]
        assert len(database.migrate()) == len(migrate.migrations("sqlite")) - 1
    before = facts_of(app, past)
    states = Counter(job.state for job in before.jobs.values())
    assert states == {"succeeded": 1, "failed": 1, "expired": 1, "cancelled": 1, "ready": 6, "running": 1}
    worker = past.start("current", "work")
    until(lambda: unfinished(app) == 0, 120, "every job has ended", past.log)
    past.leave(worker)
    assert app.jobs.get(running).state == "succeeded"
    require_since(before, facts_of(app, past))


@pytest.mark.timeout(300)
def test_a_process_of_the_first_schema_refuses_to_write_to_one_of_today(app: holdfast.App, past: Times) -> None:
    make_and_crash(past, "first")
    app.migrate()
    before = facts_of(app, past)
    assert past.run("first", "enqueue", "1").startswith("SchemaMismatch: the database has schema version")
    assert "upgrade Holdfast here" in past.run("first", "work")
    assert facts_of(app, past).tables == before.tables


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_a_worker_of_an_older_schema_is_refused_after_a_migration_and_its_jobs_run_elsewhere(
    app: holdfast.App, past: Times, figure: Figure
) -> None:
    make_and_crash(past, "fifteenth")
    older = past.start("fifteenth", "work")
    app.migrate()
    before = facts_of(app, past)
    assert past.run("fifteenth", "enqueue", "25").startswith("SchemaMismatch: the database has schema version")
    newer = past.start("current", "work")
    for _ in range(4):
        assert past.run("current", "enqueue", "25") == "stored"
    older.kill()
    older.wait()
    until(lambda: unfinished(app) == 0, 120, "every job has ended", past.log)
    past.leave(newer)
    facts = facts_of(app, past)
    require_since(before, facts)
    figure(len(facts.jobs), "jobs beside a worker with an older schema")


def facts_of(app: holdfast.App, past: Times) -> Facts:
    return read_facts(app.open(), past.lines())


def require_since(before: Facts, facts: Facts) -> None:
    """Every promise holds, but that nobody was told of ends before there was a log to tell them."""
    ended = {job.id for job in before.jobs.values() if job.state in ENDS}
    found = [one for one in check(facts, drained=True) if not (one.promise == "I16" and one.subject in ended)]
    assert not found, report(facts, found)
