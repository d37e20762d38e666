"""Arguments, results, step values and signals over 256 KiB: kept in blobs, read back as if they were in their rows."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import App, Context, Job, SyncContext
from holdfast.config import load
from holdfast.errors import IdTaken, PayloadTooLarge, SignalConflict
from holdfast.model.answers import JobFilter
from holdfast.model.values import INLINE, is_reference
from holdfast.runtime.database import Database
from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from holdfast.testing import drain
from holdfast.worker.maintenance.artifact_gc import ArtifactCollector
from tests.postgres_server import url_of

MEGABYTE = 1_000_000
BIG = "é" * 2_500_000
"""5 MB as UTF-8."""
SMALL_BOUND = 300_000


@pytest.fixture(params=["file", "memory", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return ":memory:"
    return str(tmp_path / "jobs.db") if request.param == "file" else url_of(request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def app(place: str) -> Iterator[App]:
    app = App(place)
    yield app
    app.close()


def query(app: App, text: str) -> list[tuple[Any, ...]]:
    return app.open().read(Op(lambda tx: tx.all(Statement("test", text, text))))


def blobs(app: App) -> int:
    """How many blobs have bytes."""
    if app.open().blobs.kind == "files":
        folder = Path(f"{app.config.store}-artifacts")
        return len(os.listdir(folder)) if folder.exists() else 0
    return int(query(app, "select count(distinct blob) from holdfast_blob_part")[0][0])


def swept(app: App) -> int:
    async def sweep() -> None:
        sweeper = ArtifactCollector(app.open(), lambda: True)
        while await sweeper.run_once() == 0.0:
            pass

    asyncio.run(sweep())
    return blobs(app)


def is_sound(app: App) -> bool:
    if app.config.store == ":memory:":
        return True
    with Database(load({"store": app.config.store})) as database:
        return [found.rule for found in database.verify() if found.broken_by] == []


def columns(app: App, job: Job[Any]) -> tuple[str, str | None]:
    """What the row itself holds of the arguments and the result."""
    ((payload, result),) = query(app, f"select payload, result from holdfast_any_job where id = '{job.id}'")
    return payload, result


# -- results and arguments


def test_a_result_of_five_megabytes_is_given_to_every_reader(app: App) -> None:
    @app.task
    def makes() -> str:
        return BIG

    job = makes.enqueue()
    drain(app)
    assert is_reference(columns(app, job)[1])
    assert job.result(timeout=1) == BIG
    assert json.loads(app.jobs.get(job.id).result or "") == BIG
    assert [json.loads(found.result or "") for found in app.jobs.find(JobFilter())] == [BIG]
    assert app.jobs.decode_result(app.jobs.wait(job.id), "makes") == BIG
    assert asyncio.run(job.aresult(timeout=1)) == BIG
    artifact = app.artifacts.get(job.id, "completion")
    assert artifact.size == len(json.dumps(BIG, ensure_ascii=False).encode())
    assert json.loads(app.artifacts.read(job.id, "completion")) == BIG
    assert blobs(app) == 1
    assert is_sound(app)


def test_arguments_of_five_megabytes_reach_tasks_of_either_colour(app: App) -> None:
    @app.task
    def counts(text: str) -> int:
        return len(text)

    @app.task
    async def acounts(text: str) -> int:
        return len(text)

    alone = counts.enqueue(BIG)
    many = app.enqueue_many([counts.job(BIG), acounts.job("small"), acounts.job(BIG)])
    awaited = asyncio.run(acounts.aenqueue(BIG))
    assert all(is_reference(columns(app, job)[0]) for job in (alone, many[0], many[2], awaited))
    assert not is_reference(columns(app, many[1])[0])
    assert json.loads(app.jobs.get(alone.id).payload) == {"text": BIG}
    drain(app)
    assert [job.result() for job in (alone, *many, awaited)] == [len(BIG), len(BIG), 5, len(BIG), len(BIG)]
    assert is_sound(app)


def test_what_is_just_small_enough_stays_in_its_row_and_what_is_not_goes(app: App) -> None:
    @app.task
    def echoes(text: str) -> str:
        return text

    fits, too_many = "x" * (INLINE - 2), "x" * (INLINE - 1)
    wide = "€" * (INLINE // 3)
    jobs = [echoes.enqueue(text) for text in (fits, too_many, wide)]
    drain(app)
    assert [is_reference(columns(app, job)[1]) for job in jobs] == [False, True, True]
    assert [job.result() for job in jobs] == [fits, too_many, wide]


def test_a_value_that_looks_like_a_reference_is_a_value(app: App) -> None:
    @app.task
    def echoes(value: Any) -> Any:
        return value

    look_alike = {"holdfast_value": {"blob": "0" * 26, "size": 1, "sha256": ""}}
    jobs = [echoes.enqueue(value) for value in (look_alike, " " + json.dumps(look_alike), [look_alike, BIG])]
    drain(app)
    assert jobs[0].result() == look_alike
    assert jobs[1].result() == " " + json.dumps(look_alike)
    assert jobs[2].result() == [look_alike, BIG]


def test_a_job_with_large_arguments_keeps_the_promises_of_its_options(app: App) -> None:
    @app.task
    def counts(text: str) -> int:
        return len(text)

    first = counts.options(id="mine").enqueue(BIG)
    again = counts.options(id="mine").enqueue(BIG)
    assert (first.created, again.created) == (True, False)
    with pytest.raises(IdTaken):
        counts.options(id="mine").enqueue(BIG + "x")
    keyed = counts.options(dedupe_key="k").enqueue(BIG)
    twin = counts.options(dedupe_key="k").enqueue(BIG)
    assert twin.id == keyed.id
    replaced = counts.options(dedupe_key="k", on_duplicate="replace", delay=0).enqueue(BIG + "!")
    assert replaced.id == keyed.id
    smaller = counts.options(dedupe_key="other").enqueue(BIG)
    counts.options(dedupe_key="other", on_duplicate="replace").enqueue("small")
    drain(app)
    assert (first.result(), keyed.result(), smaller.result()) == (len(BIG), len(BIG) + 1, 5)
    assert is_sound(app)


def test_a_result_goes_into_the_arguments_of_the_next_member(app: App) -> None:
    @app.task
    def makes(letter: str) -> str:
        return letter * MEGABYTE

    @app.task
    def joins(texts: list[str], last: str) -> int:
        return sum(map(len, texts)) + len(last)

    with app.flow("large") as flow:
        parts = flow.map(makes, ["a", "b", "c", "d", "e"])
        last = flow.add(makes.job("f"))
        flow.add(joins.job(parts.output, last.output))
    drain(app)
    ends = app.flows.result(flow.id, timeout=1)
    assert 6 * MEGABYTE in (ends.values() if isinstance(ends, dict) else [ends])
    assert is_sound(app)


# -- in the caller's own transaction


@pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)
@pytest.mark.parametrize("commits", [True, False])
def test_large_arguments_are_part_of_the_callers_transaction(app: App, place: str, commits: bool) -> None:
    @app.task
    def counts(text: str) -> int:
        return len(text)

    app.migrate()
    connection: Any = psycopg.connect(place) if place.startswith("postgresql") else app.connect()
    try:
        connection.execute("begin")
        one = counts.options(connection=connection).enqueue(BIG)
        two, _ = app.enqueue_many([counts.job(BIG), counts.job("small")], connection=connection)
        connection.commit() if commits else connection.rollback()
    finally:
        connection.close()
    assert query(app, "select count(*) from holdfast_value") == [(2 if commits else 0,)]
    assert query(app, "select count(*) from holdfast_blob") == [(2 if commits else 0,)]
    drain(app)
    if commits:
        assert (one.result(), two.result()) == (len(BIG), len(BIG))
    assert is_sound(app)


def test_a_file_whose_transaction_was_rolled_back_is_removed_in_time(tmp_path: Path) -> None:
    app = App(tmp_path / "jobs.db")

    @app.task
    def counts(text: str) -> int:
        return len(text)

    app.migrate()
    connection = app.connect()
    connection.execute("begin")
    counts.options(connection=connection).enqueue(BIG)
    connection.rollback()
    connection.close()
    kept = counts.enqueue(BIG)
    assert blobs(app) == 2
    folder = tmp_path / "jobs.db-artifacts"
    app.open().write(Op(lambda tx: tx.one(Statement("age", *["update holdfast_migration set applied_at = 0"] * 2))))
    for name in os.listdir(folder):
        os.utime(folder / name, (1_000_000_000, 1_000_000_000))
    assert swept(app) == 1
    assert json.loads(app.jobs.get(kept.id).payload) == {"text": BIG}
    app.close()


# -- steps and signals


@pytest.mark.parametrize("colour", ["async", "thread"])
def test_a_large_step_is_recorded_once_and_answers_every_later_run(app: App, colour: str) -> None:
    done: list[str] = []

    def load_it(letter: str) -> str:
        done.append(letter)
        return letter * 20 * MEGABYTE

    if colour == "async":

        @app.task(name="works", retry=holdfast.RetryPolicy(kind="none"))
        async def aworks(ctx: Context) -> int:
            text = await ctx.step("load", load_it, "a")
            if ctx.attempt == 1:
                raise ConnectionError
            return len(text)
    else:

        @app.task(name="works", retry=holdfast.RetryPolicy(kind="none"))
        def works(ctx: SyncContext) -> int:
            text = ctx.step("load", load_it, "a")
            if ctx.attempt == 1:
                raise ConnectionError
            return len(text)

    job = app.tasks["works"].enqueue()
    drain(app)
    assert (job.result(), done) == (20 * MEGABYTE, ["a"])
    assert app.jobs.retry(job.id)
    drain(app)
    assert (job.result(), done) == (20 * MEGABYTE, ["a"])
    (step,) = app.jobs.steps(job.id)
    assert len(step.value) == 20 * MEGABYTE
    assert app.jobs.retry(job.id, fresh=True)
    assert swept(app) == 0
    drain(app)
    assert (job.result(), done) == (20 * MEGABYTE, ["a", "a"])
    assert is_sound(app)


def test_a_fork_shares_the_bytes_and_the_last_of_both_takes_them_along(app: App) -> None:
    done: list[str] = []

    def does(text: str) -> str:
        done.append(text[:1])
        return text

    @app.task
    def works(ctx: SyncContext, given: str) -> int:
        first = ctx.step("first", does, "a" * 2 * MEGABYTE)
        second = ctx.step("second", does, "b" * MEGABYTE)
        return len(given) + len(first) + len(second)

    job = works.enqueue(BIG)
    drain(app)
    assert blobs(app) == 3
    fork = app.jobs.fork(job, from_step="second")
    assert blobs(app) == 3
    assert query(app, "select max(refs) from holdfast_blob") == [(2,)]
    app.jobs.delete(job.id)
    assert swept(app) == 2
    drain(app)
    assert fork.result() == len(BIG) + 3 * MEGABYTE
    assert done == ["a", "b", "b"]
    assert is_sound(app)
    app.jobs.delete(fork.id)
    assert swept(app) == 0
    assert query(app, "select count(*) from holdfast_blob") == [(0,)]


def test_a_signal_of_a_megabyte_waits_in_the_mailbox_and_is_the_answer(app: App) -> None:
    @app.task
    async def waits(ctx: Context) -> int:
        first = await ctx.wait_for("answer", type=str)
        second = await ctx.wait_for("answer", type=str)
        return len(first) + len(second)

    job = waits.enqueue()
    early = app.signal(job, "answer", "a" * MEGABYTE, key="once")
    assert app.signal(job, "answer", "a" * MEGABYTE, key="once").again
    assert early.seq == 1
    with pytest.raises(SignalConflict):
        app.signal(job, "answer", "b" * MEGABYTE, key="once")
    drain(app)
    app.signal(job, "answer", "b" * MEGABYTE)
    drain(app)
    assert job.result() == 2 * MEGABYTE
    assert is_sound(app)


def test_results_of_awaited_jobs_may_be_large(app: App) -> None:
    @app.task
    def makes() -> str:
        return BIG

    @app.task
    async def waits(ctx: Context) -> int:
        child = await ctx.enqueue(makes.job())
        return len(await ctx.wait_for(child))

    job = waits.enqueue()
    drain(app)
    assert job.result() == len(BIG)
    assert is_sound(app)


# -- the end of it


def test_a_replay_a_deletion_and_retention_let_go_of_the_bytes(app: App) -> None:
    @app.task
    def echoes(text: str) -> str:
        return text

    job = echoes.enqueue(BIG)
    drain(app)
    assert blobs(app) == 2
    app.jobs.retry(job.id)
    assert swept(app) == 1
    drain(app)
    app.jobs.bulk("retry", ids=[job.id])
    assert swept(app) == 1
    drain(app)
    assert (blobs(app), job.result()) == (2, BIG)
    app.jobs.delete(job.id)
    assert swept(app) == 0
    assert is_sound(app)


# -- the bound


@pytest.fixture
def bounded(place: str) -> Iterator[App]:
    app = App(place, max_value_bytes=SMALL_BOUND)
    yield app
    app.close()


def test_what_is_over_the_bound_is_refused_with_what_to_do(bounded: App) -> None:
    @bounded.task
    async def waits(ctx: Context, text: str) -> None:
        await ctx.wait_for("answer")

    job = waits.enqueue("x" * 299_000)
    for refused in (lambda: waits.enqueue("x" * 300_000), lambda: bounded.signal(job, "answer", "x" * 300_000)):
        with pytest.raises(
            PayloadTooLarge, match=r"300,0\d\d bytes, the limit is 300,000.*artifact.*max_value_bytes"
        ) as it:
            refused()
        assert it.value.limit == SMALL_BOUND
    assert query(bounded, "select count(*) from holdfast_job") == [(1,)]


def test_a_result_or_a_step_over_the_bound_fails_the_job_at_once_and_says_so(bounded: App) -> None:
    runs: list[str] = []

    def makes(what: str) -> str:
        runs.append(what)
        return "x" * 300_000

    @bounded.task(max_attempts=5)
    def returns() -> str:
        return makes("result")

    @bounded.task(max_attempts=5)
    def steps(ctx: SyncContext) -> None:
        ctx.step("large", makes, "step")

    jobs = [returns.enqueue(), steps.enqueue()]
    drain(bounded)
    assert runs == ["result", "step"]
    for job in jobs:
        found = bounded.jobs.get(job.id)
        assert (found.state, found.reason) == ("failed", "bad_result")
        assert "the limit is 300,000" in (found.error or "")
        assert "max_value_bytes" in (found.error or "")


def test_a_job_that_runs_inline_may_have_large_values() -> None:
    app = App(":memory:", inline=True)

    @app.task
    def echoes(text: str) -> str:
        return text

    assert echoes.enqueue(BIG).result() == BIG
