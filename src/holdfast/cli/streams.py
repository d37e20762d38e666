"""`holdfast jobs tail`, and the progress of a job."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import click

from ..app import App
from ..model.jobs import JobState
from ..model.streams import Frame, Progress
from .command import Command, echo, json_option, target_options
from .locate import find_app
from .output import json_line, plain


@click.command(cls=Command)
@click.argument("job_id", metavar="ID")
@click.option("--after", metavar="CURSOR", help="Resume after this frame. [default: from the first]")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="For example output, stdout, stderr, log.")
@click.option("--durable", is_flag=True, help="Skip best-effort frames.")
@click.option("--no-follow", is_flag=True, help="Stop at the end of the current output.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop after this long without a frame."
)
@json_option
@target_options
def tail(
    *,
    job_id: str,
    after: str | None,
    kinds: tuple[str, ...],
    durable: bool,
    no_follow: bool,
    timeout: float | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Print a job's output from the start until it has finished. With --json each line is a frame."""
    app = find_app(app_name, store)
    patience = 0 if no_follow else timeout
    said: list[str] = []
    if not as_json and not no_follow and not app.jobs.get(job_id, whole=False).attempts:
        said = _say_where_it_is(app, job_id)
    last = ""
    for frame in app.stream(job_id, after=after, timeout=patience, best_effort=not durable):
        if kinds and frame.kind not in kinds and not frame.control:
            continue
        last = json_line(plain(frame.encoded)) + "\n" if as_json else shown(frame, last)
        echo(last, nl=False, err=not as_json and frame.kind == "stderr")
    if last and not last.endswith("\n"):
        echo()
    if not as_json:
        _say_where_it_is(app, job_id, said)


def _say_where_it_is(app: App, job_id: str, said: Sequence[str] = ()) -> list[str]:
    """Print once, on standard error, why a silent job is not running."""
    found = app.jobs.explain(job_id)
    codes = [reason.code for reason in found.reasons]
    if found.state is not JobState.SUCCEEDED and codes != said:
        for reason in found.reasons:
            echo(f"-- {reason.text}", err=True)
    return codes


def shown(frame: Frame, before: str = "") -> str:
    """Format a frame: text as it is, anything else on its own line."""
    if isinstance(frame.data, str):
        return "".join(character if _is_plain(character) else "\ufffd" for character in frame.data)
    begin = "\n" if before and not before.endswith("\n") else ""
    if frame.control:
        return f"{begin}-- {frame.kind}: {json.dumps(frame.data, ensure_ascii=False)}\n"
    if isinstance(frame.data, bytes):
        return f"{begin}[{frame.kind}] {len(frame.data):,} bytes\n"
    if frame.kind == "log":
        error = f"\n{frame.data['error']}" if frame.data.get("error") else ""
        line = f"{frame.data.get('level', '')} {frame.data.get('logger', '')}: {frame.data.get('message', '')}{error}"
        return begin + "".join(c if _is_plain(c) else "\ufffd" for c in line) + "\n"
    return f"{begin}{json.dumps(frame.data, ensure_ascii=False)}\n"


def progress_data(progress: Progress) -> dict[str, Any] | None:
    """Return a job's progress as JSON."""
    return None if progress.at is None else plain(progress)


def progress_line(progress: Progress) -> str | None:
    """Format a job's progress in one line."""
    percent = None if progress.percent is None else f"{progress.percent:.3g} %"
    return ", ".join(fact for fact in (percent, progress.stage, progress.message) if fact) or None


def _is_plain(character: str) -> bool:
    """Remove control characters: output of a job must not move the cursor or change the window title."""
    return character in "\n\t" or unicodedata.category(character) != "Cc"
