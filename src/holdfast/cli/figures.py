"""Figures as text and as JSON. The JSON field names are stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..client.stats import Throughput
from ..model.stats import ErrorGroup, QueueStats, StoreStats, TaskStats, WorkerStats
from ..model.webhooks import QUEUE as WEBHOOKS
from ..shapes.queues import of_queue_stats
from ..shapes.stats import of_error, of_error_whole, of_task_stats, of_throughput
from .output import plain


def age(seconds: float | None) -> str:
    """Format a duration: 850 µs, 12 ms, 1.5 s, 3 min, 2.1 h, 4 d."""
    if seconds is None:
        return ""
    for limit, unit, scale in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3), (120.0, "s", 1.0), (7200.0, "min", 1 / 60)):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds / 3600:.3g} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.3g} d"


def size(count: int | None) -> str:
    """Format a number of bytes."""
    value = float(count or 0)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def queue_name(name: str) -> str:
    """Return a queue's display name; the built-in one is marked."""
    return f"{name} (built in)" if name == WEBHOOKS else name


def queue_names(names: Sequence[str]) -> str:
    return ", ".join(map(queue_name, names))


def worth_showing(queues: Sequence[QueueStats]) -> list[QueueStats]:
    """Return the user's queues, and the built-in webhook queue if it was ever used; every worker serves that one."""
    return [queue for queue in queues if queue.name != WEBHOOKS or any(queue.counts.values())]


def number(queue: QueueStats, label: str) -> str:
    """Format a count; ~ marks an estimate."""
    count = queue.count(label)
    return f"{'~' if label in queue.estimated else ''}{count:,}" if count else ""


def queue_data(queue: QueueStats) -> dict[str, Any]:
    return plain(of_queue_stats(queue))


def throughput_data(rate: Throughput) -> dict[str, Any]:
    return plain(of_throughput(rate))


def task_data(stats: TaskStats) -> dict[str, Any]:
    return plain(of_task_stats(stats))


def store_data(health: StoreStats) -> dict[str, Any]:
    return asdict(health)


def worker_vitals(worker: WorkerStats) -> tuple[str, str, str]:
    """Return the CPU, memory and claim latency of a worker."""
    vitals = worker.vitals
    return (share(vitals.cpu), size(vitals.rss), age(vitals.claim_p99)) if vitals else ("", "", "")


def error_data(group: ErrorGroup, *, whole: bool = False) -> dict[str, Any]:
    return plain(of_error_whole(group) if whole else of_error(group))
