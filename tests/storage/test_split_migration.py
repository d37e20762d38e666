"""A store in which a job was one row is brought forward with all its jobs, as they were."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.clock import SECOND, SYSTEM_CLOCK, ManualClock
from holdfast.model.jobs import JobRecord, JobState
from holdfast.model.limits import JobLimits, key_lane
from holdfast.model.outcomes import Done, Retry
from holdfast.runtime.database import Database
from holdfast.storage.migrate import Dialect
from holdfast.storage.ops.jobs import actions, queries
from holdfast.storage.ops.store import Finding
from holdfast.storage.port import Op, Store
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.sqlite import SqliteStore
from tests.conformance import flow_kit
from tests.conformance.world import ERROR, World, by_write
from tests.postgres_server import url_of
from tests.storage.test_migrations import Run, migrate_to

BEFORE = 33


@dataclass
class Past:
    """A store of today with jobs, and one of the schema before the split with the same rows."""

    world: World
    url: str
    dialect: Dialect
    run: Run
    """Runs a statement in the older store."""
    ids: list[str]
    columns: list[str]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All columns of all jobs in the older store, before and after its migration."""
        return self.run(f"select {', '.join(self.columns)} from {table} order by id")


@pytest.fixture(params=["sqlite", "postgres"])
def past(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Past]:
    clock = ManualClock(SYSTEM_CLOCK.now() - 3600 * SECOND)
    if request.param == "sqlite":
        source: Store = SqliteStore(tmp_path / "source.db", clock=clock, durable=False)
        source.migrate()
        path = tmp_path / "jobs.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute("pragma journal_mode = wal")
            yield _made(source, clock, str(path), "sqlite", lambda text, *given: file.execute(text, given).fetchall())
        source.close()
        return
    source = PostgresStore(request.getfixturevalue("postgres_dsn"), clock=clock)
    dsn: str = request.getfixturevalue("blank_postgres_dsn")
    with psycopg.connect(dsn, autocommit=True) as server:

        def run(text: str, *given: object) -> list[Any]:
            found = server.execute(text.replace("?", "%s").encode() if given else text.encode(), given or None)
            return found.fetchall() if found.description else []

        yield _made(source, clock, url_of(dsn), "postgres", run)
    source.close()


def test_every_job_reads_as_before_and_the_store_is_sound(past: Past) -> None:
    expected = {job_id: record(past.world.store, job_id) for job_id in past.ids}
    assert {job.state for job in expected.values()} == set(JobState)
    assert {job.due for job in expected.values()} == {None, 0, 1, 2, 3}
    before = past.rows("holdfast_job")
    with opened(past) as (app, database):
        assert database.migrate()[0] == "0034_live_and_ended"
        assert broken(database) == []
        assert {job_id: record(app.open(), job_id) for job_id in past.ids} == expected
        for job_id in past.ids:
            assert app.jobs.attempts(job_id) == past.world.history(job_id)
    # Also what no record shows, such as the key that a job holds.
    assert past.rows("holdfast_any_job") == before


def test_its_jobs_are_claimed_and_finished(past: Past) -> None:
    clock = past.world.clock
    with opened(past) as (_, database):
        database.migrate()
        migrated = _store(past, clock)
        world = World(migrated, clock, by_write(migrated), lambda: None)
        ready = [job_id for job_id in past.ids if world.job(job_id).due == 1]
        owner = world.worker("after")
        for job_id in ready:
            (job,) = world.claim(owner, 1, queues=[world.job(job_id).queue])
            assert job.id == job_id
            world.finish(owner, job, Done('"after"'))
            assert (world.job(job_id).state, world.job(job_id).result) == (JobState.SUCCEEDED, '"after"')
        # A run that was under way at the migration is recorded by its worker.
        running = next(world.job(job_id) for job_id in past.ids if world.job(job_id).state is JobState.RUNNING)
        world.finish(str(running.owner), running, Done('"late"'))  # type: ignore[arg-type]
        assert world.job(running.id).result == '"late"'
        failed = next(job_id for job_id in past.ids if world.job(job_id).state is JobState.FAILED)
        world.run(actions.retry, failed)
        assert (world.job(failed).state, world.job(failed).generation) == (JobState.READY, 1)
        assert broken(database) == []
        migrated.close()


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_migration_that_is_killed_is_run_again(past: Past) -> None:
    _multiply(past, 60_000)
    jobs = past.run("select count(*) from holdfast_job")
    dice = random.Random(34)
    program = "import sys, holdfast; app = holdfast.App(sys.argv[1]); print('go', flush=True); app.migrate()"
    killed = 0
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", program, past.url], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        time.sleep(dice.uniform(0, 0.5))  # the moment is arbitrary
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        killed += process.wait() == -signal.SIGKILL
        versions = [version for (version,) in past.run("select version from holdfast_migration order by 1")]
        if versions[-1] > BEFORE:
            break
        assert past.run("select count(*), count(state) from holdfast_job") == [(*jobs[0], *jobs[0])]
    assert killed
    with opened(past) as (_, database):
        database.migrate()
        assert broken(database) == []
    assert past.run("select count(*) from holdfast_any_job where state is not null") == jobs


def record(store: Store, job_id: str) -> JobRecord:
    return store.read(Op(lambda tx: queries.get_job(tx, job_id)))


def broken(database: Database) -> list[Finding]:
    return [finding for finding in database.verify() if finding.broken_by]


@contextmanager
def opened(past: Past) -> Iterator[tuple[holdfast.App, Database]]:
    app = holdfast.App(past.url)
    try:
        with Database(app.config) as database:
            yield app, database
    finally:
        app.close()


def _made(source: Store, clock: ManualClock, url: str, dialect: Dialect, run: Run) -> Past:
    world = World(source, clock, by_write(source), lambda: None)
    ids = _populate(world)
    run("begin")
    migrate_to(BEFORE, dialect, run)
    columns = sorted(_columns(run, "holdfast_job", dialect))
    for table in _tables(run, dialect):
        names = columns if table == "holdfast_job" else _columns(run, table, dialect)
        shown = "holdfast_any_job" if table == "holdfast_job" else table
        listed = ", ".join(names)
        run(f"delete from {table}")
        for row in world.sql(f"select {listed} from {shown}"):
            override = " overriding system value" if dialect == "postgres" else ""
            run(f"insert into {table} ({listed}){override} values ({', '.join('?' * len(names))})", *row)
    run("commit")
    return Past(world, url, dialect, run, ids, columns)


def _tables(run: Run, dialect: Dialect) -> list[str]:
    """The tables of the older store, jobs before the attempts that refer to them."""
    query = (
        "select name from sqlite_master where type = 'table' and name like 'holdfast_%'"
        if dialect == "sqlite"
        else "select tablename from pg_tables where schemaname = current_schema() and tablename like 'holdfast_%'"
    )
    found = {name for (name,) in run(query)} - {"holdfast_migration"}
    return sorted(found, key=lambda name: (name != "holdfast_job", name))


def _columns(run: Run, table: str, dialect: Dialect) -> list[str]:
    query = (
        f"select name from pragma_table_info('{table}')"
        if dialect == "sqlite"
        else f"select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0 and atttypid > 0"
    )
    return [name for (name,) in run(query)]


def _populate(world: World) -> list[str]:
    """Jobs in every state and special condition, made by the operations themselves."""
    made = [
        world.place(state, tags='["a"]', tenant="acme", key=f"{state}-{until}", until=until).id
        for state in JobState
        for until in ("start", "end")
    ]
    made += [world.place(state).id for state in JobState]
    made.append(world.add(queue="later", delay=7200 * SECOND, priority=3, deadline=9000 * SECOND, title="Later"))
    made += _held_by_a_limit(world)
    made += _lost(world)
    again = world.place(JobState.FAILED)
    world.run(actions.retry, again.id)
    world.end_placed(again, Retry(5 * SECOND, ERROR))
    asked = world.place(JobState.RUNNING)
    world.run(actions.cancel, asked.id)
    made += [again.id, asked.id, world.place(JobState.RUNNING, timeout=SECOND, trace="00-trace").id]
    flow = flow_kit.create(world, {"a": None, "b": ["a"], "c": ["b"], "d": None})
    flow.end("a")
    made += flow.ids.values()
    return made


def _held_by_a_limit(world: World) -> list[str]:
    limits = JobLimits(key=key_lane("", "k"), capacity=1).encode()
    made = [world.add(queue="limited", limits=limits) for _ in range(3)]
    world.claim(world.worker(queues=["limited"]), 3, queues=["limited"])
    return made


def _lost(world: World) -> list[str]:
    """A job whose workers were lost: it waits as a suspect."""
    job_id, owner = world.add(queue="lost"), world.worker(queues=["lost"])
    world.take(owner, queues=["lost"])
    world.lose_twice(owner)
    world.clock.advance(60)
    world.claim(world.worker(queues=["none"]), 1, queues=["none"])  # makes it claimable: its delay is over
    return [job_id]


def _multiply(past: Past, count: int) -> None:
    """Copies of one ended job, so that the migration takes long enough to be killed in its midst."""
    listed = ", ".join(past.columns)
    chosen = ", ".join("'copy' || n" if name == "id" else name for name in past.columns)
    numbers = f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {count})"
    past.run(
        f"insert into holdfast_job ({listed}) {numbers} select {chosen} from numbers, holdfast_job"
        " where id = (select min(id) from holdfast_job where state = 'succeeded' and linked = 0)"
    )


def _store(past: Past, clock: ManualClock) -> Store:
    if past.dialect == "postgres":
        return PostgresStore(past.url, clock=clock)
    return SqliteStore(past.url, clock=clock, durable=False)
