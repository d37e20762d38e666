"""`holdfast top`: a live view of queues, rates, workers and errors."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..app import App
from ..errors import HoldfastError
from ..model.stats import ErrorGroup, QueueStats, StoreStats, Throughput, WorkerStats
from .command import Command, describe, json_option, target_options
from .locate import find_app
from .output import cell, console_for, instant, plain, print_json
from .stats import (
    age,
    number,
    queue_name,
    queue_names,
    share,
    size,
    store_data,
    worker_vitals,
    worth_showing,
)


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
            "queues": [plain(queue) for queue in self.queues],
            "throughput": [plain(rate) for rate in self.rates.values()],
            "workers": [
                {"id": worker.id, "name": worker.name, "state": worker.state, "slots": worker.slots}
                for worker in self.workers
            ],
            "errors": [plain(group) for group in self.errors],
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


_QUEUE_COLUMNS: Final = (
    "queue", "state", "waiting#", "delayed#", "retrying#", "parked#", "running#", "failed#", "oldest due#", "in/min#",
    "done/min#", "fail/min#", "wait p99#", "run p99#",
)  # fmt: skip
_TABLES: Final = 3
_HEAD: Final = 4
"""Lines taken by the first line, headings and spaces of each table."""


def draw(view: View, now: str, height: int | None) -> Group:
    """Return one frame of at most that many lines."""
    rows = _shares(height, (len(worth_showing(view.queues)), len(view.workers), len(view.errors)))
    tables = (_queues(view, rows[0]), _workers(view, rows[1]), _errors(view, rows[2]))
    return Group(_title(view, now), "", tables[0], "", tables[1], "", tables[2])


def _title(view: View, now: str) -> Text:
    running = sum(queue.running for queue in view.queues)
    waiting = sum(queue.count("waiting") for queue in view.queues)
    live = sum(worker.is_live for worker in view.workers)
    store = view.store
    facts = [
        f"{live} worker{'' if live == 1 else 's'}",
        f"{waiting:,} waiting",
        f"{running:,} running",
        f"{store.backend} {size(store.bytes)}",
    ]
    facts += [f"WAL {size(store.wal_bytes)}"] if store.wal_bytes else []
    facts += [f"claims p99 {age(store.claim_p99)}"] if store.claim_p99 is not None else []
    return Text.assemble(("holdfast top", "bold"), f"  {now}  ", "  ".join(facts), ("  q quits", "dim"))


def _queues(view: View, most: int) -> Table:
    table = _table(*_QUEUE_COLUMNS)
    shown = worth_showing(view.queues)
    for queue in sorted(shown, key=lambda queue: (-(queue.oldest_due_age or -1), queue.name))[:most]:
        name, cells = cell(queue_name(queue.name)), (Text(text) for text in _queue_cells(view, queue))
        table.add_row(name, cell(_state(queue)), *cells)
    return _or_nothing(table, "no queues")


def _queue_cells(view: View, queue: QueueStats) -> list[str]:
    counts = [number(queue, label) for label in ("waiting", "delayed", "retrying", "parked")]
    running = f"{queue.running}/{queue.slots}" + (f" {share(queue.utilisation)}" if queue.slots else "")
    rate = view.rates.get(queue.name)
    rates = [f"{rate.per_minute.get(name, 0):.4g}" if rate else "" for name in ("enqueued", "succeeded", "failed")]
    spans = [age(point.p99) if rate and (point := rate.worst_minute.get(name)) else "" for name in ("wait", "run")]
    return [*counts, running, number(queue, "failed"), age(queue.oldest_due_age), *rates, *spans]


def _state(queue: QueueStats) -> str:
    if queue.state == "active" and not queue.workers:
        return "no worker"
    return f"cooling {age(queue.cooling)}" if queue.state == "active" and queue.cooling else queue.state


def _workers(view: View, most: int) -> Table:
    table = _table(
        "worker", "state", "queues", "running#", "slots#", "cpu#", "memory#", "claim p99#", "last heartbeat#"
    )
    for worker in view.workers[:most]:
        cpu, memory, claim = worker_vitals(worker)
        slots = (str(worker.running), str(worker.slots))
        cells = (queue_names(worker.queues), *slots, cpu, memory, claim, f"{age(worker.beat_age)} ago")
        table.add_row(cell(worker.name), cell(worker.state), *(Text(text) for text in cells))
    return _or_nothing(table, "no workers")


def _errors(view: View, most: int) -> Table:
    table = _table("error", "runs#", "task", "last seen", "message")
    for group in view.errors[:most]:
        message = " ".join(group.message.split())
        seen = instant(group.last_seen, exact=False) or ""
        table.add_row(Text(group.type, "red"), cell(group.count), Text(group.task), Text(seen[11:19]), Text(message))
    return _or_nothing(table, "no errors")


def _shares(height: int | None, wanted: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the number of rows per table: queues before workers before errors, but some for each."""
    if height is None:
        return wanted
    left = max(_TABLES, height - _TABLES * 2 - _HEAD)
    queues = min(wanted[0], max(1, left - min(wanted[1], 3) - min(wanted[2], 3)))
    workers = min(wanted[1], max(1, left - queues - min(wanted[2], 3)))
    return queues, workers, max(1, left - queues - workers)


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in names:
        side: Literal["left", "right"] = "right" if name.endswith("#") else "left"
        table.add_column(name.rstrip("#"), justify=side, no_wrap=True, overflow="ellipsis")
    return table


def _or_nothing(table: Table, empty: str) -> Table:
    if table.row_count:
        return table
    alone = Table(box=None, show_header=False, pad_edge=False)
    alone.add_row(Text(empty, "dim"))
    return alone
