"""What a tired caller may do wrong, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.cli.shapes import decoded


@pytest.fixture
def app() -> Iterator[holdfast.App]:
    app = holdfast.App(":memory:")
    yield app
    app.close()


@pytest.mark.parametrize("wrong", ["f", None, 5])
def test_what_is_not_a_request_is_named_with_what_to_write_instead(app: holdfast.App, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"task\.job"):
        app.enqueue(wrong)
    with pytest.raises(TypeError, match=r"task\.job"):
        app.enqueue_many([wrong])


def test_a_task_itself_is_not_a_request(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(TypeError, match="Task 'work'"):
        app.enqueue_many([work])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", ["a\ud800", "", "x" * 200, 5])
def test_an_id_that_cannot_be_is_refused_by_every_look_up(app: holdfast.App, wrong: Any) -> None:
    for look in (app.jobs.get, app.jobs.explain, app.jobs.cancel, app.jobs.retry, app.jobs.delete):
        with pytest.raises(holdfast.InvalidInput, match="the id"):
            look(wrong)


def test_a_result_of_another_type_than_announced_fails_the_job(app: holdfast.App) -> None:
    @app.task
    def typed() -> int:
        return "not a number"  # type: ignore[return-value]

    job = typed.enqueue()
    app.drain()
    assert job.status().reason == "bad_result"
    with pytest.raises(holdfast.JobFailed, match="expected `?int"):
        job.result()


def test_a_job_of_a_rate_that_does_not_exist_says_so(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.options(rate="typo").enqueue()
    app.drain()
    assert "there is no rate 'typo'" in app.jobs.explain(job.id).reasons[0].text


def test_a_corrupt_column_can_still_be_shown() -> None:
    assert decoded(b"\xff\xfe") == "b'\\xff\\xfe'"  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, -0.001, "5", True])
def test_a_wait_for_no_proper_time_is_refused(app: holdfast.App, wrong: Any) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    for wait in (job.wait, job.result, lambda timeout: app.jobs.wait(job.id, timeout)):
        with pytest.raises(holdfast.InvalidInput, match="timeout"):
            wait(wrong)
    for awaited in (job.await_, job.aresult):
        with pytest.raises(holdfast.InvalidInput, match="timeout"):
            asyncio.run(awaited(wrong))
    with app.inline(), pytest.raises(holdfast.InvalidInput, match="timeout"):
        work.enqueue().wait(wrong)


def test_a_wait_may_be_as_long_as_anybody_likes(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    with app.worker():
        assert job.wait(timeout=10**11) == "succeeded"
    with pytest.raises(holdfast.ResultTimeout):
        work.enqueue().wait(0)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CONCURRENCY", "abc"), ("CONCURRENCY", "0"), ("LEASE", "1"), ("LEASE", "nan"), ("POLL", ""),
        ("DURABLE", "perhaps"), ("POOL_SIZE", "many"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_a_variable_is_told_with_the_name_of_the_variable(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HOLDFAST_{variable}", text)
    with pytest.raises(holdfast.ConfigError, match=f"HOLDFAST_{variable}"):
        holdfast.App(":memory:")


def test_a_wrong_value_in_code_is_not_blamed_on_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE", "30")
    with pytest.raises(holdfast.ConfigError, match="^concurrency must be"):
        holdfast.App(":memory:", concurrency=0)
