"""Mistakes that would do something else in silence: refused, or warned of, where they are made."""

from __future__ import annotations

import asyncio
import functools
import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.main import cli
from holdfast.testing import isolated

if TYPE_CHECKING:
    from nowhere import Order  # type: ignore[import-not-found]


@pytest.fixture
def app() -> Iterator[holdfast.App]:
    app = holdfast.App(":memory:")
    yield app
    app.close()


@pytest.mark.parametrize("wrong", [{"order": 1}, "abc", b"abc", holdfast.model.Outgoing({"a": 1})])
def test_one_event_is_not_a_list_of_events(app: holdfast.App, wrong: Any) -> None:
    app.destination("cloud")(lambda events: None)
    with pytest.raises(holdfast.InvalidInput, match=r"list of events, not one .*put_many\(\[event\]\)"):
        app.outbox("cloud").put_many(wrong)
    with pytest.raises(holdfast.InvalidInput, match="list of events"):
        asyncio.run(app.outbox("cloud").aput_many(wrong))
    assert app.jobs.counts() == []


@pytest.mark.parametrize("wrong", [{"region": "eu"}, "eu", 5, {"eu"}])
def test_the_arguments_of_a_schedule_are_a_list_or_go_by_name(app: holdfast.App, wrong: Any) -> None:
    def report(region: str) -> None: ...

    for schedule in (app.cron("0 3 * * *", args=wrong), app.every(60, args=wrong)):
        with pytest.raises(holdfast.errors.ConfigError, match=r"args is .*kwargs="):
            schedule(app.task(name=f"report-{len(app.tasks)}")(report))
    with pytest.raises(holdfast.errors.ConfigError, match="kwargs is 'eu'"):
        app.cron("0 3 * * *", kwargs="eu")(app.task(name="named")(report))  # type: ignore[arg-type]
    app.cron("0 3 * * *", kwargs={"region": "eu"})(app.task(name="right")(report))


@pytest.mark.parametrize("wrong", ["*/90 * * * *", "0 */25 * * *", "0 0 */32 * *", "*/61 * * * * *", "0-30/90 * * * *"])
def test_a_step_that_a_field_of_a_schedule_cannot_make_is_refused(app: holdfast.App, wrong: str) -> None:
    with pytest.raises(holdfast.InvalidInput, match=r"the step of .* is too large.*app\.every"):
        app.cron(wrong)(lambda_named(app))


@pytest.mark.parametrize("right", ["*/60 * * * *", "0 */24 * * *", "*/5 * * * MON-FRI", "*/30 * * * * *"])
def test_a_step_that_a_field_can_make_is_not(app: holdfast.App, right: str) -> None:
    app.cron(right)(lambda_named(app))


def lambda_named(app: holdfast.App) -> Any:
    return app.task(name="tick")(lambda: None)


def test_a_deadline_before_the_start_is_refused(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    now = datetime.now(UTC)
    for options in ({"deadline": 1, "delay": 60}, {"deadline": now, "at": now + timedelta(hours=1)}):
        with pytest.raises(holdfast.InvalidInput, match="deadline comes before the job may start"):
            work.options(**options).enqueue()  # type: ignore[arg-type]
    work.options(deadline=61, delay=60).enqueue()


def test_a_destination_needs_a_name_and_a_function_that_takes_events(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=r'write @app\.destination\("cloud"\)'):

        @app.destination  # type: ignore[arg-type]
        def cloud(events: Any) -> None: ...

    with pytest.raises(holdfast.errors.ConfigError, match="must take a list of events"):
        app.destination("none")(lambda: None)  # type: ignore[arg-type, misc]
    for option in ("ready", "gate"):
        with pytest.raises(holdfast.errors.ConfigError, match=f"{option} is True; give a function"):
            app.destination("c", **{option: True})  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", [{"schema": "x"}, {"pool_size": 4}, {"listen_dsn": "postgresql://h/d"}])
def test_a_setting_of_postgres_in_code_is_refused_for_sqlite(setting: dict[str, Any]) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match="is for Postgres"):
        holdfast.App("jobs.db", **setting)


def test_an_app_for_postgres_may_be_tested_on_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    app = holdfast.App("postgresql://nobody@localhost:1/none", schema="jobs", pool_size=4)
    with isolated(app):
        app.task(name="x")(lambda: None).enqueue()
        app.drain()
    monkeypatch.setenv("HOLDFAST_STORE", ":memory:")
    holdfast.App("postgresql://nobody@localhost:1/none", schema="jobs")


def test_a_path_takes_no_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(holdfast.errors.ConfigError, match=r"a path takes no options.*file:jobs\.db%3Ftimeout=5"):
        holdfast.App("jobs.db?timeout=5").migrate()
    odd = holdfast.App("file:jobs.db%3Ftimeout=5")
    odd.migrate()
    odd.close()
    assert (tmp_path / "jobs.db?timeout=5").exists()
    again = holdfast.App("jobs.db?timeout=5")
    again.migrate()
    again.close()


@pytest.mark.parametrize(
    "secret", ["shop:qx@zk/v#jd@localhost:5432", "shop:qx@zk@localhost", "shop:qx/zk@localhost", "shop:qx%2@localhost"]
)
def test_a_postgres_url_with_a_password_that_is_not_encoded_shows_nothing_of_it(secret: str) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match="percent-encode") as caught:
        holdfast.App(f"postgresql://{secret}/shop").migrate()
    assert not any(part in str(caught.value) for part in ("qx", "zk", "v#", "jd", "localhost"))


@pytest.mark.parametrize("inside", ["", "below/it"])
def test_a_spill_that_is_not_a_folder_is_refused_when_the_app_is_made(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(holdfast.errors.ConfigError, match=r"spill is .*file is not a folder"):
        holdfast.App(":memory:", spill=tmp_path / "file" / inside)
    holdfast.App(":memory:", spill=tmp_path / "made" / "later")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "wrong", ["1/5s", "10 per minute", "10/fortnight", "5", "3 a day", "ten/s", "-1/s", "1e3/h", "/s"]
)
def test_a_text_that_looks_like_a_rate_and_says_none_is_refused_with_what_it_may_be(
    app: holdfast.App, wrong: str
) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=r"task 'work': rate=.* is not understood; write '10/s'"):
        app.task(name="work", rate=wrong)(lambda: None)
    app.task(name="work", rate="3rd-party")(lambda: None)
    app.task(name="other", rate="api.example/v1")(lambda: None)


@pytest.mark.parametrize("wrong", ["ten/s", "-1/s", "1e3/h", "10 per minute", "10/s"])
def test_a_text_that_looks_like_a_rate_is_refused_in_options(app: holdfast.App, wrong: str) -> None:
    with pytest.raises(holdfast.InvalidInput, match=r"@app\.task"):
        app.task(name="work")(lambda: None).options(rate=wrong)


def test_a_rate_of_nothing_is_refused_with_the_name_of_its_task(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match="task 'work': rate='0/s' would let none of its jobs run"):
        app.task(name="work", rate="0/s")(lambda: None)


def test_a_limit_that_is_declared_twice_with_different_numbers_is_refused(app: holdfast.App) -> None:
    declare: list[Callable[[float], object]] = [
        lambda n: app.rate("smtp", per_second=n),
        lambda n: app.breaker("stripe", open_for=n),
        lambda n: app.budget("team", tokens=int(n)),
        lambda n: app.quota("api", limit=int(n), window=60),
    ]
    for each in declare:
        each(1)
        each(1)
        with pytest.raises(holdfast.errors.ConfigError, match="declared twice, with different numbers"):
            each(500)


def test_an_annotation_that_cannot_be_resolved_is_warned_of(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def ship(order: Order, n: int) -> Order: ...

    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "task 'ship': the annotation Order of order cannot be resolved" in caplog.messages[0]
    assert "outside of TYPE_CHECKING" in caplog.messages[0]
    assert "of its result" in caplog.messages[1]


def test_a_decorator_that_hides_the_signature_is_warned_of_and_one_with_wraps_is_not(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    def timed(fn: Callable[..., Any], wraps: bool) -> Callable[..., Any]:
        def inner(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return functools.wraps(fn)(inner) if wraps else inner

    def work(x: int) -> int:
        return x

    app.task(timed(work, wraps=True))
    assert caplog.messages == []
    app.task(timed(work, wraps=False))
    assert "task 'inner' takes (*args, **kwargs)" in caplog.text and "functools.wraps" in caplog.text


def run_through(app: holdfast.App, layer: Any, *, awaiting: bool) -> str:
    app.middleware(layer)
    if awaiting:

        @app.task(max_attempts=1)
        async def work() -> int:
            return 1
    else:

        @app.task(max_attempts=1)
        def work() -> int:
            return 1

    job = work.enqueue()
    app.drain()
    with pytest.raises(holdfast.JobFailed) as caught:
        job.result()
    return str(caught.value)


def never_calls(ctx: Any, call: Any) -> None: ...
async def never_calls_async(ctx: Any, call: Any) -> None: ...
def loses(ctx: Any, call: Any) -> None:
    call()


async def loses_async(ctx: Any, call: Any) -> None:
    await call()


def gives(ctx: Any, call: Any) -> Any:
    return call(ctx)


async def gives_async(ctx: Any, call: Any) -> Any:
    return await call(ctx)


async def awaits_not(ctx: Any, call: Any) -> Any:
    return call()


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (never_calls, "middleware never_calls ended without calling call(), so the task did not run"),
        (never_calls_async, "middleware never_calls_async ended without calling call()"),
        (loses, "middleware loses lost the task's result; write: return call()"),
        (loses_async, "middleware loses_async lost the task's result; write: return await call()"),
        (gives, "middleware gives gave arguments to call(), which takes none"),
        (gives_async, "middleware gives_async gave arguments to call()"),
        (awaits_not, "middleware awaits_not returned a coroutine; write: return await call()"),
    ],
)
def test_middleware_that_does_not_pass_the_result_on_fails_the_run_and_is_named(
    app: holdfast.App, layer: Any, text: str, awaiting: bool
) -> None:
    assert text in run_through(app, layer, awaiting=awaiting)


def test_middleware_that_is_a_generator_is_refused(app: holdfast.App) -> None:
    def layer(ctx: Any, call: Any) -> Any:
        yield call()

    with pytest.raises(holdfast.errors.ConfigError, match="is a generator"):
        app.middleware(layer)


def test_middleware_may_answer_for_a_task(app: holdfast.App) -> None:
    @app.task
    def work() -> int:
        return 1

    app.middleware(lambda ctx, call: 2)
    job = work.enqueue()
    app.drain()
    assert job.result() == 2


@pytest.mark.parametrize("given", ["export.csv", "folder/export.csv", "/tmp/nowhere/export.csv"])
def test_a_text_that_looks_like_a_path_is_not_stored_as_an_artifact(
    app: holdfast.App, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("1")

    @app.task(max_attempts=1)
    def store(ctx: holdfast.SyncContext, text: str) -> None:
        ctx.artifact("export.csv", text)

    for text in (given, "there"):
        job = store.enqueue(text)
        app.drain()
        with pytest.raises(holdfast.JobFailed, match=r"looks like a path; give pathlib\.Path"):
            job.result()
    fine = [store.enqueue(text) for text in ("id\n1\n", "see https://example.org/a.html", "3.14", "example.org", "")]
    app.drain()
    assert {job.state for job in fine} == {"succeeded"}


def test_a_block_that_is_left_while_jobs_are_due_says_so(app: holdfast.App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(queue="mail", requires=["gpu"])
    def work() -> None: ...

    caplog.set_level(logging.INFO, "holdfast")
    work.options(delay=3600).enqueue()
    with app.worker():
        pass
    assert "the worker's block ended" not in caplog.text
    work.enqueue()
    with app.worker():
        pass
    assert "the worker's block ended while jobs wait in queue 'mail'" in caplog.text


def test_a_command_does_not_add_tables_to_a_database_of_others_unless_it_is_to_work_there(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table theirs (x)")
    for words in (["jobs", "list"], ["doctor"], ["queues", "list"]):
        found = CliRunner().invoke(cli, [*words, "--store", str(path)], env={"HOLDFAST_STORE": None})
        assert found.exit_code != 0 and "1 table, none of them Holdfast's" in found.output
    tables = sqlite3.connect(path).execute("select name from sqlite_master").fetchall()
    assert tables == [("theirs",)]
    found = CliRunner().invoke(cli, ["jobs", "enqueue", "work", "--store", str(path)], env={"HOLDFAST_STORE": None})
    assert f"added Holdfast's tables to {path}, which had 1 table before" in found.output
    found = CliRunner().invoke(cli, ["jobs", "list", "--store", str(path)], env={"HOLDFAST_STORE": None})
    assert found.exit_code == 0
