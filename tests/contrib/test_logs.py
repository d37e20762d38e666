"""A line of a handler names its job, wherever the handler runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.telemetry import JobLogFilter, JsonFormatter, job_fields
from tests.acceptance.conftest import url_of

from . import logged_tasks

KINDS = ("on_the_loop", "on_a_thread", "in_a_child", "in_a_child_async")


@pytest.fixture
def lines(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LINES", str(tmp_path / "lines"))
    monkeypatch.setenv("HOLDFAST_STORE", url_of(where) if "=" in where else where)
    handler = logging.FileHandler(tmp_path / "lines")
    handler.addFilter(JobLogFilter())
    handler.setFormatter(JsonFormatter())
    logged_tasks.log.addHandler(handler)
    logged_tasks.log.setLevel(logging.INFO)
    yield tmp_path / "lines"
    logged_tasks.log.removeHandler(handler)
    handler.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_a_handler_names_its_job(app: holdfast.App, lines: Path, kind: str) -> None:
    task = getattr(logged_tasks, kind)
    app._keep(task)
    job = app.enqueue(task.options(tenant="acme").job())
    app.drain()
    (line,) = [json.loads(text) for text in lines.read_text().splitlines()]
    about = {name: line.get(name) for name in ("job", "task", "attempt", "queue", "tenant", "message")}
    assert about == {
        "job": job.id, "task": kind, "attempt": 1, "queue": "mail", "tenant": "acme", "message": "hello"
    }  # fmt: skip


def test_a_line_of_a_batch_names_no_job_and_neither_does_one_outside_of_jobs(app: holdfast.App, lines: Path) -> None:
    app._keep(logged_tasks.in_a_batch)
    app.enqueue(logged_tasks.in_a_batch.job(1))
    app.drain()
    logged_tasks.log.info("outside")
    for text in lines.read_text().splitlines():
        assert not json.loads(text).keys() & {"job", "task", "attempt", "queue", "tenant"}
    assert job_fields() == {}


def test_an_inline_job_is_named_too() -> None:
    app, seen = holdfast.App(inline=True), list[dict[str, str | int]]()

    @app.task
    def work() -> None:
        seen.append(job_fields())

    work.enqueue()
    assert [fields["task"] for fields in seen] == ["work"]
