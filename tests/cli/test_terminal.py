"""What a job or its caller wrote cannot command the terminal of whoever looks at it, nor forge a line of the log."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest

import holdfast.cli
from holdfast import App
from holdfast.cli.logs import TextFormatter
from holdfast.cli.output import console_for, print_table
from holdfast.rules.redaction import RedactedLogs
from holdfast.telemetry import JsonFormatter
from holdfast.values.printable import printable, printable_json, printable_lines

from .kit import Run, answer

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\x7f\u2028end"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]")


@pytest.fixture
def failed(app: App) -> str:
    """The id of a job whose error and arguments are hostile."""

    @app.task(max_attempts=1)
    def hostile(text: str) -> None:
        raise ValueError(f"{text}\n2026-01-31T12:00:00.000Z INFO    holdfast.worker: forged")

    job = hostile.enqueue(HOSTILE)
    app.drain()
    return job.id


@pytest.mark.parametrize("command", [
    "jobs show {}", "jobs show {} --json", "jobs list", "jobs list --json", "jobs explain {}", "errors list",
    "errors list --json", "top --once",
])  # fmt: skip
def test_nothing_that_a_job_wrote_reaches_the_terminal_raw(run: Run, failed: str, command: str) -> None:
    result = run(*command.format(failed).split())
    assert result.exit_code == 0, result.output
    assert not RAW.search(result.output), RAW.findall(result.output)
    if command == "jobs show {} --json":
        assert "owned" in str(answer(result))
    elif "show" in command:
        assert "\\x1b]0;owned" in result.output


def test_an_error_message_has_no_control_characters(run: Run) -> None:
    result = run("jobs", "show", "no\x1b[31msuch")
    assert result.exit_code != 0
    assert not RAW.search(result.output)


def test_on_a_terminal_styles_are_ours_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    print_table(["id", "text…"], [["1", HOSTILE]], empty="none")
    console_for().print(HOSTILE)
    shown = terminal.getvalue()
    assert "\x1b]0" not in shown and "\x1b[2J" not in shown and "\x07" not in shown
    assert shown.count("\\x1b]0;owned") == 2


def test_escapes_are_for_people_and_json_stays_the_same_value() -> None:
    assert printable("a\tb\nc\x1b") == "a\\tb\\nc\\x1b"
    assert printable_lines("a\tb\nc\x1b\r") == "a\tb\nc\\x1b\\r"
    assert printable("größe – 東京 🙂") == "größe – 東京 🙂"
    assert json.loads(printable_json(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def record(message: str, *args: object) -> logging.LogRecord:
    made = logging.LogRecord("holdfast.worker", logging.WARNING, __file__, 1, message, args, None)
    assert RedactedLogs().filter(made)
    return made


def test_a_message_cannot_forge_a_line_of_the_log() -> None:
    forged = "gone\n2026-01-31T12:00:00.000Z INFO    holdfast.worker: all is well\x1b[1A"
    for made in (record("a job failed: %s", forged), record("a job failed: %s", ValueError(forged))):
        first, *others = TextFormatter().format(made).split("\n")
        assert "a job failed: gone" in first
        assert all(line.startswith("    ") for line in others)
        assert "\x1b" not in "".join(others) + first
    line = JsonFormatter().format(record("a job failed: %s", HOSTILE))
    assert not RAW.search(line)
    assert "owned" in json.loads(line)["message"]


def test_the_line_about_a_failed_run_is_one_line_in_any_programs_log(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(max_attempts=1)
    def hostile() -> None:
        raise ValueError("gone\nINFO forged\x1b[1A")

    hostile.enqueue()
    with caplog.at_level("INFO", logger="holdfast.jobs"):
        app.drain()
    (line,) = [made.getMessage() for made in caplog.records if "failed for good" in made.getMessage()]
    assert "gone\\nINFO forged\\x1b[1A" in line
    assert "\n" not in line
    assert not any(text.startswith("INFO forged") for text in caplog.text.split("\n"))


def test_every_command_prints_by_the_function_that_escapes() -> None:
    folder = Path(holdfast.cli.__file__).parent
    loose = [path.name for path in folder.glob("*.py") if "click.echo(" in path.read_text("utf-8")]
    assert loose == ["command.py"], "use `echo` of cli.command, or `json_text` and `print_json`"
