"""Numbers for people, and numbers for programs. The names of the latter are a promise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..client.stats import Throughput
from ..model.stats import LABELS, ErrorGroup, QueueStats, StoreStats, WorkerStats
from .output import instant


def age(seconds: float | None) -> str:
    """A span at a glance: 850 µs, 12 ms, 1.5 s, 3 min, 2.1 h, 4 d."""
    if seconds is None:
        return ""
    for limit, unit, scale in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3), (120.0, "s", 1.0), (7200.0, "min", 1 / 60)):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds / 3600:.3g} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.3g} d"


def size(count: int | None) -> str:
    """Bytes at a glance."""
    value = float(count or 0)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def number(queue: QueueStats, label: str) -> str:
    """A count; ~ marks an estimate."""
    count = queue.count(label)
    return f"{'~' if label in queue.estimated else ''}{count:,}" if count else ""


def queue_data(queue: QueueStats) -> dict[str, Any]:
    return {
        "name": queue.name,
        "state": queue.state,
        "counts": {label: queue.count(label) for label in LABELS},
        "estimated": sorted(queue.estimated),
        "oldest_due_age": queue.oldest_due_age,
        "running": queue.running,
        "slots": queue.slots,
        "workers": queue.workers,
        "utilisation": queue.utilisation,
        "paused": queue.is_paused,
        "cooling": queue.cooling,
        "capacity": queue.capacity,
    }


def throughput_data(rate: Throughput) -> dict[str, Any]:
    return {
        "queue": rate.queue,
        "per_minute": {name: rate.per_minute(name) for name in sorted(rate.counts)},
        "worst_minute": {
            name: {
                "minute": instant(point.minute),
                "count": point.count,
                "mean": (point.sum or 0.0) / point.count if point.count else None,
                "p50": point.p50,
                "p95": point.p95,
                "p99": point.p99,
                "max": point.max,
            }
            for name, point in sorted(rate.latencies.items())
        },
    }


def store_data(health: StoreStats) -> dict[str, Any]:
    return asdict(health)


def worker_vitals(worker: WorkerStats) -> tuple[str, str, str]:
    """Processor, memory, and what its claims take."""
    vitals = worker.vitals
    return (share(vitals.cpu), size(vitals.rss), age(vitals.claim_p99)) if vitals else ("", "", "")


def error_data(group: ErrorGroup, *, whole: bool = False) -> dict[str, Any]:
    data = asdict(group) | {"first_seen": instant(group.first_seen), "last_seen": instant(group.last_seen)}
    return data if whole else {name: value for name, value in data.items() if name != "traceback"}
