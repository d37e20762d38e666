"""`holdfast demo`: a demonstration on a temporary file or a given store."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from ..errors import ConfigError
from .command import NOT_SO, OK, Command, json_option
from .locate import use_store
from .output import console_for

if TYPE_CHECKING:
    from ..demo.summary import Summary


@click.command(cls=Command)
@click.option(
    "--store", metavar="URL", help="Run on this store instead of a temporary SQLite file; its jobs are kept there."
)
@click.option("--keep", is_flag=True, help="Keep the folder with the file and the workers' logs.")
@click.option("--serve", is_flag=True, help="Start the dashboard with live sample data instead, until interrupted.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, help="Port of the dashboard. [default: 8787]")
@json_option
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def demo(store: str | None, keep: bool, serve: bool, port: int, as_json: bool, debug: bool) -> None:
    """Run 2,000 jobs over three queues with a real worker process, which is killed midway.

    Shows priorities, delays, a dedupe key, retries that succeed, a job that fails, one that is cancelled while it
    runs, and one that is rescued after its worker is killed. It then checks that every job is accounted for; if not,
    it lists the problems and exits with code 1. --store brings that store's schema up to date.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    use_store(store or str(folder / "demo.db"))
    console = console_for(stderr=as_json)
    try:
        if serve:
            _serve(port, console)
            return
        summary = _play(folder, console)
    finally:
        if keep:
            console.print(f"the file and the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        click.echo(json.dumps(summary.as_data()))
    raise SystemExit(NOT_SO if summary.faults else OK)


def _serve(port: int, console: Console) -> None:
    try:
        from ..demo.studio.opening import open_studio
        from ..demo.studio.tasks import app
    except ImportError as missing:
        raise ConfigError(f'{missing.name} is missing; pip install "holdfast[web]"') from missing
    open_studio(app.config, port, console.print)


def _play(folder: Path, console: Console) -> Summary:
    # Only after the store is known: the demo's app reads it when it is created.
    from ..demo import audit
    from ..demo.driver import Driver
    from ..demo.screen import Screen
    from ..demo.summary import show, summarise

    began = time.monotonic()
    with Screen(console) as screen:
        driver = Driver(folder, screen)
        try:
            driver.play()
            books = driver.books()
        finally:
            driver.close()
    faults = audit.faults(driver.run, books)
    summary = summarise(driver.run, books, time.monotonic() - began, faults)
    show(summary, console)
    if faults:
        for fault in faults:
            console.print(f"wrong: {fault}", style="red")
    else:
        console.print("checked: every job is accounted for, in the right state, with its work done.", style="green")
    return summary
