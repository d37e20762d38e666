"""`holdfast top`: a live view of queues, rates, workers and errors."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ..app import App
from ..client.stats import Throughput
from ..errors import HoldfastError
from ..model.stats import ErrorGroup, QueueStats, StoreStats, WorkerStats
from .command import Command, describe, json_option, target_options
from .figures import error_data, queue_data, store_data, throughput_data
from .locate import find_app
from .output import console_for, print_json
from .screen import draw


class View:
    """The data of one frame, read together."""

    def __init__(self, app: App, minutes: int) -> None:
        self.queues: list[QueueStats] = app.stats.queues()
        self.rates: dict[str, Throughput] = {rate.queue: rate for rate in app.stats.throughput(minutes)}
        self.workers: list[WorkerStats] = app.stats.workers()
        self.errors: list[ErrorGroup] = app.errors.list(limit=20)
        self.store: StoreStats = app.stats.store()

    def data(self) -> dict[str, Any]:
        return {
            "queues": [queue_data(queue) for queue in self.queues],
            "throughput": [throughput_data(rate) for rate in self.rates.values()],
            "workers": [
                {"id": worker.id, "name": worker.name, "state": worker.state, "slots": worker.slots}
                for worker in self.workers
            ],
            "errors": [error_data(group) for group in self.errors],
            "store": store_data(self.store),
        }


@click.command(cls=Command)
@click.option("--every", type=click.FloatRange(0.2, 60), default=1.0, help="Seconds between updates. [default: 1]")
@click.option("--minutes", type=click.IntRange(1, 60), default=5, help="Minutes to include in rates. [default: 5]")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@json_option
@target_options
def top(
    every: float, minutes: int, once: bool, app_name: str | None, store: str | None, as_json: bool, debug: bool
) -> None:
    """Show a live view of queues, rates, workers and errors; q quits. --json prints one frame."""
    app = find_app(app_name, store)
    if as_json:
        print_json(View(app, minutes).data())
        return
    console = console_for()
    if once or not console.is_terminal:
        console.print(_frame(app, minutes, console))
        return
    with suppress(KeyboardInterrupt):
        _live(app, console, every, minutes)


def _live(app: App, console: Console, every: float, minutes: int) -> None:
    with _single_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_frame(app, minutes, console), refresh=True)
            if _wait_for_quit(keys, every):
                return


def _frame(app: App, minutes: int, console: Console) -> Group | Text:
    """Return the data to show; a store that is briefly unavailable does not end the view."""
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    try:
        view = View(app, minutes)
    except HoldfastError as error:
        return Text(f"{now}  {describe(error)}; retrying", "red")
    return draw(view, now, console.height if console.is_terminal else None)


def _wait_for_quit(keys: bool, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not keys:
            time.sleep(left)
        elif select.select([sys.stdin], [], [], left)[0]:
            key = sys.stdin.read(1)
            if key in ("q", "Q", "\x1b", ""):
                return True
    return False


@contextmanager
def _single_keys() -> Iterator[bool]:
    """Let the terminal pass each key immediately, without echo; False if there is no keyboard."""
    if not sys.stdin.isatty():
        yield False
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
