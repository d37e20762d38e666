"""What a job says, at the command line: followed, read in part, and its progress shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import App, Context

from .kit import Run, answer


@pytest.fixture
def spoken(app: App) -> str:
    @app.task(capture=("stderr",))
    async def speaks(ctx: Context) -> None:
        await ctx.emit("Hello ")
        await ctx.emit("world\x1b[2J")
        await ctx.emit({"tokens": 2}, kind="usage")
        await ctx.emit(b"\x00\x01", kind="raw")
        await ctx.emit("tick", kind="tick", best_effort=True)
        await ctx.progress(percent=42.5, stage="sending", message="nearly there")

    job = speaks.enqueue()
    app.drain()
    return job.id


def _lines(result: Any) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_the_words_of_a_job_are_printed_as_they_are_but_cannot_move_the_cursor(run: Run, spoken: str) -> None:
    result = run("jobs", "tail", spoken)
    assert result.exit_code == 0
    assert result.output == 'Hello world\ufffd[2J\n{"tokens": 2}\n[raw] 2 bytes\ntick\n'


def test_a_program_gets_a_frame_for_each_line_and_goes_on_after_a_cursor(run: Run, spoken: str) -> None:
    frames = _lines(run("jobs", "tail", spoken, "--json"))
    assert [frame["cursor"] for frame in frames] == ["1.0", "2.0", "3.0", "4.0", "4.1"]
    assert frames[2]["data"] == {"tokens": 2}
    assert frames[3]["base64"] == "AAE="
    assert _lines(run("jobs", "tail", spoken, "--json", "--after", "3.0", "--no-follow")) == frames[3:]
    assert _lines(run("jobs", "tail", spoken, "--json", "--durable")) == frames[:4]
    assert _lines(run("jobs", "tail", spoken, "--json", "--kind", "usage", "--kind", "raw")) == frames[2:4]


def test_a_job_that_has_not_ended_is_followed_no_longer_than_asked(app: App, run: Run) -> None:
    job = app.tasks["mail"].enqueue()
    assert run("jobs", "tail", job.id, "--no-follow").stdout == ""
    assert run("jobs", "tail", job.id, "--timeout", "0.01").exit_code == 0


def test_whoever_follows_a_job_is_told_why_it_says_nothing_and_how_it_ended(app: App, run: Run) -> None:
    @app.task(max_attempts=1)
    def breaks() -> None:
        raise ValueError("no colour profile")

    waits = app.tasks["mail"].enqueue()
    waiting = run("jobs", "tail", waits.id, "--timeout", "0.01")
    assert (waiting.stdout, waiting.stderr.count("no worker is alive")) == ("", 1)
    broken = breaks.enqueue()
    app.drain()
    result = run("jobs", "tail", broken.id)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "-- it failed (exhausted): ValueError: no colour profile\n"
    assert run("jobs", "tail", broken.id, "--json").output == ""


def test_what_cannot_be_followed_is_told_by_the_exit_code(run: Run, spoken: str) -> None:
    assert run("jobs", "tail", "nobody").exit_code == 3
    assert answer(run("jobs", "tail", spoken, "--after", "x", "--json"), 2)["error"]["code"] == "invalid_cursor"


def test_the_progress_of_a_job_is_shown_with_it(app: App, run: Run, spoken: str) -> None:
    assert "42.5 %, sending, nearly there" in run("jobs", "show", spoken).output
    (shown,) = answer(run("jobs", "show", spoken, "--json"))["jobs"]
    assert shown["progress"]["percent"] == 42.5
    silent = app.tasks["mail"].enqueue()
    (shown,) = answer(run("jobs", "show", silent.id, "--json"))["jobs"]
    assert shown["progress"] is None
