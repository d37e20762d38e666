"""`isolated` and `inline` change an app for a while; `assert_enqueued` says what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.remote import Problem, Retry
from holdfast.testing import assert_enqueued, drain, inline, isolated
from tests.patience import SOON


@pytest.fixture
def app(tmp_path: Path) -> holdfast.App:
    app = holdfast.App(tmp_path / "own.db")

    @app.task(queue="mail")
    async def welcome(user_id: int, shout: bool = False) -> str:
        return f"welcome {user_id}"

    @app.task
    def tidy() -> None: ...

    return app


def _enqueue(app: holdfast.App, name: str, *args: object, **options: object) -> holdfast.Job[object]:
    return app.tasks[name].options(**options).enqueue(*args)  # type: ignore[arg-type]


def test_an_isolated_app_leaves_its_own_store_alone(app: holdfast.App, tmp_path: Path) -> None:
    with isolated(app) as same:
        assert same is app
        _enqueue(app, "tidy")
    assert not (tmp_path / "own.db").exists()
    _enqueue(app, "tidy")
    with isolated(app):
        assert app.jobs.find() == []
    assert len(app.jobs.find()) == 1
    app.close()


def test_an_isolated_app_may_have_a_file_and_a_clock(app: holdfast.App, tmp_path: Path) -> None:
    clock = holdfast.clock.ManualClock(start=1_000_000)
    with isolated(app, store=tmp_path / "other.db", clock=clock):
        assert _enqueue(app, "tidy").status().created_at == 1_000_000
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "own.db").exists()


def test_isolation_ends_with_an_error_too_and_may_be_nested(app: holdfast.App) -> None:
    before = app.config
    with isolated(app):
        with pytest.raises(KeyError), isolated(app):
            raise KeyError(_enqueue(app, "tidy").id)
        assert app.jobs.find() == []
    assert app.config == before


def test_a_result_can_be_waited_for_in_one_isolation_after_another(app: holdfast.App) -> None:
    for _ in range(2):
        with isolated(app), app.worker():
            assert _enqueue(app, "welcome", 1).result(timeout=SOON) == "welcome 1"


def test_inline_runs_a_job_in_its_caller_and_stores_nothing(app: holdfast.App, tmp_path: Path) -> None:
    with inline(app):
        assert _enqueue(app, "welcome", 7).result() == "welcome 7"
    assert not (tmp_path / "own.db").exists()


def test_an_inline_app_can_be_isolated(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "own.db", inline=True)

    @app.task
    async def nothing() -> None: ...

    with isolated(app):
        nothing.enqueue()
        assert drain(app).succeeded == 1


def test_assert_enqueued_finds_by_task_arguments_queue_and_tenant(app: holdfast.App) -> None:
    welcome = app.tasks["welcome"]
    with isolated(app):
        first = _enqueue(app, "welcome", 1)
        second = _enqueue(app, "welcome", 2, queue="slow", tenant="acme")
        drain(app)
        assert [job.id for job in assert_enqueued(app, welcome, count=2)] == [first.id, second.id]
        assert [job.id for job in assert_enqueued(app, welcome.job(2))] == [second.id]
        assert [job.id for job in assert_enqueued(app, welcome, queue="mail")] == [first.id]
        assert [job.id for job in assert_enqueued(app, welcome, tenant="acme")] == [second.id]
        assert_enqueued(app, welcome.job(3), count=0)
        assert_enqueued(app, app.tasks["tidy"], count=0)


def test_a_failed_assertion_lists_what_was_enqueued(app: holdfast.App) -> None:
    with isolated(app):
        _enqueue(app, "welcome", 1)
        _enqueue(app, "tidy")
        drain(app, queues=["default"])
        with pytest.raises(AssertionError) as wrong:
            assert_enqueued(app, app.tasks["welcome"].job(2, shout=True), queue="mail", count=3)
    assert str(wrong.value).splitlines() == [
        "expected 3 of welcome(user_id=2, shout=True) queue='mail', found 0",
        "what was enqueued:",
        "  welcome(user_id=1) queue='mail' ready",
        "  tidy() queue='default' succeeded",
    ]


def test_a_failed_assertion_says_that_nothing_was_enqueued_or_how_much_more(app: holdfast.App) -> None:
    tidy = app.tasks["tidy"]
    with isolated(app):
        with pytest.raises(AssertionError, match=r"at least one of welcome\(…\), found 0\nnothing was enqueued"):
            assert_enqueued(app, app.tasks["welcome"])
        app.enqueue_many([tidy.job() for _ in range(1_030)])
        with pytest.raises(AssertionError, match="found 1030\n(.*\n){21}  … and 1,010 more$"):
            assert_enqueued(app, tidy, count=1)


def test_one_source_of_randomness_decides_every_delay() -> None:
    clock, asked = holdfast.clock.ManualClock(), list[float]()

    def random() -> float:
        asked.append(0.25)
        return 0.25

    app = holdfast.App(":memory:", clock=clock, random=random)
    policy = holdfast.RetryPolicy(initial=40.0, jitter="full")

    @app.task(retry=policy)
    def fails() -> None:
        raise ValueError

    @app.task
    def steps(ctx: holdfast.SyncContext) -> None:
        tried: list[int] = []

        def once() -> None:
            tried.append(1)
            if len(tried) == 1:
                raise ValueError

        ctx.options(max_attempts=2, retry=holdfast.RetryPolicy(initial=0.0, jitter="full")).step("s", once)

    app.migrate()
    drained = fails.enqueue().id
    app.drain()
    assert app.jobs.get(drained).not_before == clock.now() + 10 * SECOND
    leased = fails.enqueue().id
    worker = app.remote.register("w", ["default"], ["fails"]).worker
    (lease,) = app.remote.claim(worker, 1)
    app.remote.finish(lease.handle, Retry(Problem("no")))
    assert app.jobs.get(leased).not_before == clock.now() + 10 * SECOND
    asked.clear()
    stepped = steps.enqueue()
    app.drain()
    assert (stepped.result(0), asked) == (None, [0.25])
    with isolated(app, random=lambda: 0.5):
        app.migrate()
        again = fails.enqueue().id
        app.drain()
        assert app.jobs.get(again).not_before == clock.now() + 20 * SECOND
    app.close()
