"""The event log at the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import App

from .kit import Run


@pytest.fixture
def ended(app: App) -> list[str]:
    """One job that succeeded and one that failed."""

    @app.task(queue="mail", max_attempts=1)
    def send(n: int) -> int:
        return 1 // n

    jobs = [send.enqueue(1), send.enqueue(0)]
    app.drain()
    return [job.id for job in jobs]


def tail(run: Run, *words: object) -> list[dict[str, Any]]:
    result = run("events", "tail", "--timeout", 0, "--json", *words)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_each_line_is_an_event_and_a_cursor_goes_on_behind_it(run: Run, ended: list[str]) -> None:
    first, second = tail(run, "--after", "start", "--kind", "job")
    assert [first["job"], second["job"]] == ended
    assert [first["kind"], second["kind"]] == ["job.succeeded", "job.failed"]
    assert tail(run, "--after", first["cursor"]) == [second]
    assert tail(run, "--after", second["cursor"]) == []


def test_people_see_what_happened_to_which_job(run: Run, ended: list[str]) -> None:
    result = run("events", "tail", "--after", "start", "--timeout", 0, "--kind", "job.failed")
    assert f"job.failed          {ended[1]}  send, queue mail, attempt 1, exhausted" in result.output


def test_it_ends_after_as_many_as_were_asked_for(run: Run, ended: list[str]) -> None:
    assert len(tail(run, "--after", "start", "--limit", 1)) == 1


def test_a_wrong_cursor_is_told_so(run: Run, ended: list[str]) -> None:
    result = run("events", "tail", "--after", "yesterday")
    assert result.exit_code == 2
    assert "not a cursor of the event log" in result.output


def test_a_queue_is_told_what_to_tell(run: Run, app: App) -> None:
    assert run("queues", "set", "mail", "--events", "all").exit_code == 0
    assert app.queues.get("mail").events == "all"
    assert "all" in run("queues", "show", "mail").output
    assert run("queues", "set", "mail", "--events", "default").exit_code == 0
    assert app.queues.get("mail").events == "outcomes"
    wrong = run("queues", "set", "mail", "--events", "some")
    assert wrong.exit_code == 2
    assert "'off', 'outcomes' or 'all'" in wrong.output
