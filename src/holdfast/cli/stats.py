"""`holdfast stats`: statistics of queues and tasks, current and per minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from ..app import App
from ..client.stats import MOST_OF_TASKS
from ..model.stats import LABELS, Latency, QueueStats, StoreStats, Throughput, WorkerStats
from ..model.webhooks import QUEUE as WEBHOOKS
from .command import Command, json_option, target_options
from .locate import find_app
from .output import console_for, plain, print_json, print_table

_EVENTS: Final = ("enqueued", "started", "succeeded", "failed", "retried")
_NOTHING: Final = "no data: nothing ran, or no worker recorded statistics"


@click.command(cls=Command)
@click.option(
    "--by", type=click.Choice(["queue", "task"]), default="queue", help="Group by queue or task. [default: queue]"
)
@click.option("--queue", metavar="QUEUE", help="Only this queue.")
@click.option(
    "--minutes",
    type=click.IntRange(1, MOST_OF_TASKS),
    help="Minutes to include. [default: 5, up to 240; by task 60, up to 1440]",
)
@json_option
@target_options
def stats(
    by: str,
    queue: str | None,
    minutes: int | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Show statistics: jobs by label, rates, latencies, store health.

    ~ marks an estimate. Rates are per minute; latencies are those of the worst minute. With --by task: the figures of
    each task over the last complete minutes.
    """
    if by == "task" and queue is not None:
        raise click.UsageError("--queue cannot be combined with --by task: tasks are counted over all queues")
    app = find_app(app_name, store)
    if by == "task":
        _by_task(app, minutes or 60, as_json=as_json)
    else:
        _by_queue(app, queue, minutes or 5, as_json=as_json)


def _by_queue(app: App, queue: str | None, minutes: int, *, as_json: bool) -> None:
    queues = [app.stats.queue(queue)] if queue is not None else app.stats.queues()
    rates = [rate for rate in app.stats.throughput(minutes) if queue in (None, rate.queue)]
    health = app.stats.store()
    if as_json:
        print_json(
            {
                "queues": [plain(one) for one in queues],
                "minutes": minutes,
                "throughput": [plain(rate) for rate in rates],
                "store": store_data(health),
            }
        )
        return
    _show_queues(worth_showing(queues) if queue is None else queues)
    _show_rates(rates, minutes)
    _show_store(health)


def _by_task(app: App, minutes: int, *, as_json: bool) -> None:
    found = app.stats.tasks(minutes)
    if as_json:
        print_json({"minutes": minutes, "tasks": [plain(one) for one in found]})
        return
    console_for().print(f"the last {minutes} complete minutes", style="bold")
    rows = [
        (
            one.task,
            *(f"{one.count(name):,}" for name in _EVENTS),
            share(one.failure_rate),
            *(_times(latency) for latency in (one.run, one.wait)),
        )
        for one in found
    ]
    times = ("failure rate#", "run mean/p50/p95/p99#", "wait mean/p50/p95/p99#")
    print_table(("task", *(f"{name}#" for name in _EVENTS), *times), rows, empty=_NOTHING)


def _times(latency: Latency | None) -> str:
    if latency is None:
        return ""
    return " / ".join(age(value) for value in (latency.mean, latency.p50, latency.p95, latency.p99))


def _show_queues(queues: list[QueueStats]) -> None:
    shown = [label for label in LABELS if any(queue.count(label) for queue in queues)]
    rows = [
        (
            queue_name(queue.name),
            state_of(queue),
            *(number(queue, label) for label in shown),
            age(queue.oldest_due_age),
            f"{queue.running}/{queue.slots}",
            share(queue.utilisation),
        )
        for queue in queues
    ]
    columns = ("queue", "state", *(f"{label}#" for label in shown), "oldest due#", "slots#", "used#")
    print_table(columns, rows, empty="no queues")


def state_of(queue: QueueStats) -> str:
    return f"cooling {age(queue.cooling)}" if queue.cooling and queue.state == "active" else queue.state


def _show_rates(rates: list[Throughput], minutes: int) -> None:
    console = console_for()
    console.print(
        f"\nper minute, over the last {minutes} complete minutes; latencies of the worst minute", style="bold"
    )
    rows = [
        (
            queue_name(rate.queue),
            *(f"{rate.per_minute.get(name, 0):.4g}" for name in _EVENTS),
            *(_spread(rate, name) for name in ("wait", "run", "total")),
        )
        for rate in rates
    ]
    columns = ("queue", *(f"{name}#" for name in _EVENTS))
    latencies = ("wait p50/p95/p99#", "run p50/p95/p99#", "total p50/p95/p99#")
    print_table((*columns, *latencies), rows, empty=_NOTHING)


def _spread(rate: Throughput, name: str) -> str:
    point = rate.worst_minute.get(name)
    return "" if point is None else " / ".join(age(value) for value in (point.p50, point.p95, point.p99))


def _show_store(health: StoreStats) -> None:
    facts = [f"{health.backend} {size(health.bytes)}"]
    facts += [f"{size(health.wal_bytes)} of WAL"] if health.wal_bytes else []
    facts += [f"{size(health.free_bytes)} empty"] if health.free_bytes else []
    facts += [f"{health.dead_rows:,} dead rows"] if health.dead_rows else []
    if health.oldest_transaction:
        facts.append(f"oldest transaction {age(health.oldest_transaction)}")
    if health.claim_p50 is not None:
        facts.append(f"claims {age(health.claim_p50)} / {age(health.claim_p99)} (p50 / p99)")
    console_for().print("\nstore: " + ", ".join(facts))


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


def store_data(health: StoreStats) -> dict[str, Any]:
    return asdict(health)


def worker_vitals(worker: WorkerStats) -> tuple[str, str, str]:
    """Return the CPU, memory and claim latency of a worker."""
    vitals = worker.vitals
    return (share(vitals.cpu), size(vitals.rss), age(vitals.claim_p99)) if vitals else ("", "", "")
