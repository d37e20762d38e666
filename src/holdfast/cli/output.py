"""Output: tables for people, JSON for programs. Logs and errors go to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..model.artifacts import Artifact
from ..model.jobs import Attempt, Demands, JobRecord
from ..model.values import decoded as decoded
from ..model.values import instant_of
from ..shapes.jobs import error_line as error_line
from ..shapes.jobs import of_job, of_job_brief, with_artifacts
from ..values.printable import printable, printable_lines
from .command import echo, json_text

_WIDE: Final = 400
STATE_STYLES: Final = {
    "succeeded": "green", "failed": "red", "cancelled": "magenta", "expired": "magenta", "skipped": "dim",
    "running": "yellow", "ready": "cyan", "delayed": "blue", "blocked": "yellow", "suspended": "blue",
    "alive": "green", "stopping": "yellow", "dead": "red", "lost": "red", "active": "green", "paused": "yellow",
}  # fmt: skip


def console_for(*, stderr: bool = False) -> Console:
    """Return a console: colours and the terminal's width on a terminal; plain, unwrapped lines elsewhere."""
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    return _EscapingConsole(
        file=stream,
        force_terminal=terminal,
        no_color=None if terminal else True,
        width=None if terminal else _WIDE,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


class _EscapingConsole(Console):
    """A console on which texts from jobs and their callers cannot send control characters to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))


def say(facts: dict[str, Any], text: str, as_json: bool) -> None:
    """Print the result of an action: JSON for programs, a line for people."""
    if as_json:
        print_json(facts)
    else:
        echo(text)


def print_json(value: Any) -> None:
    echo(json_text(value, indent=2 if sys.stdout.isatty() else None, default=_text))


def json_line(value: Any) -> str:
    """Print JSON on one line, for output that comes in sequence."""
    return json_text(value, default=_text)


def plain(thing: object) -> dict[str, Any]:
    """Return an object as `print_json` takes it; the same JSON as over HTTP."""
    found: dict[str, Any] = msgspec.to_builtins(thing, builtin_types=(datetime,))
    return found


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print a table. Columns ending with `#` are numbers, those ending with `…` may wrap."""
    console = console_for()
    if not rows:
        console.print(empty)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        side: Literal["left", "right"] = "right" if name.endswith("#") else "left"
        table.add_column(name.rstrip("#…"), justify=side, overflow="fold", no_wrap=not name.endswith("…"))
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console.print(table)


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one per line; those without a value are left out."""
    console = console_for()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value is not None and value != "":
            table.add_row(name, cell(value))
    console.print(table)


def cell(value: object) -> Text:
    text = "" if value is None else f"{value:,}" if isinstance(value, int) else printable(str(value))
    return Text(text, STATE_STYLES.get(text, ""))


def instant(at: datetime | int | None, *, exact: bool = True) -> str | None:
    """Format a time in ISO 8601 and UTC, with microseconds for programs and seconds for people."""
    shown = instant_of(at) if isinstance(at, int) else at
    return None if shown is None else _text(shown, exact=exact)


def _text(at: datetime, *, exact: bool = True) -> str:
    return at.isoformat(timespec="microseconds" if exact else "seconds").replace("+00:00", "Z")


def job_brief(job: JobRecord) -> dict[str, Any]:
    """Return a job for a list: without arguments and result, which may be large."""
    return plain(of_job_brief(job))


def job_whole(job: JobRecord, attempts: list[Attempt], demands: Demands, artifacts: list[Artifact]) -> dict[str, Any]:
    """Return a job with all its details."""
    return plain(with_artifacts(of_job(job, attempts, demands), artifacts))
