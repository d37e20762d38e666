"""The layout of `holdfast top`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..model.stats import QueueStats
from .figures import age, number, queue_name, queue_names, share, size, worker_vitals, worth_showing
from .output import cell, instant

if TYPE_CHECKING:
    from .top import View

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
    rates = [f"{rate.per_minute(name):.4g}" if rate else "" for name in ("enqueued", "succeeded", "failed")]
    spans = [age(point.p99) if rate and (point := rate.latencies.get(name)) else "" for name in ("wait", "run")]
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
