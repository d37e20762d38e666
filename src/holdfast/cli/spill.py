"""`holdfast spill`: jobs kept in files because the store was unavailable."""

from __future__ import annotations

from pathlib import Path

import click

from ..client.spill import Spill
from .command import EXIT_CODES, Command, echo, json_option, target_options
from .locate import find_app
from .output import print_json, print_table

_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group(epilog=EXIT_CODES)
def spill() -> None:
    """List and replay jobs kept in files while the store was down."""


@spill.command("list", cls=Command)
@_folder
@json_option
@target_options
def list_(folder: Path, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the pending files, oldest first, and the rejected ones with the reason."""
    found = Spill(folder, find_app(app_name, store).open)
    rows = [(path.name, path.stat().st_size, "") for path in found.waiting()]
    rows += [(f"bad/{path.name}", path.stat().st_size, _reason(path)) for path in found.bad()]
    if as_json:
        print_json({"files": [{"file": name, "bytes": size, "reason": why or None} for name, size, why in rows]})
        return
    print_table(("file", "bytes#", "reason…"), rows, empty="no files")


@spill.command(cls=Command)
@_folder
@json_option
@target_options
def replay(folder: Path, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Store the jobs of pending files, in order. Stops at the first that cannot be stored now."""
    found = Spill(folder, find_app(app_name, store).open)
    before = len(found.bad())
    stored = found.replay()
    aside = len(found.bad()) - before
    if as_json:
        print_json({"stored": stored, "put_aside": aside})
    else:
        echo(f"jobs stored: {stored}, files rejected: {aside}")


def _reason(path: Path) -> str:
    try:
        return path.with_suffix(".txt").read_text("utf-8").strip()
    except OSError:
        return ""
