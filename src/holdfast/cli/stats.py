"""`holdfast stats`: statistics of queues and tasks, current and per minute."""

from __future__ import annotations

from typing import Final

import click

from ..app import App
from ..client.stats import MOST_OF_TASKS, Throughput
from ..model.stats import LABELS, Latency, QueueStats, StoreStats
from .command import Command, json_option, target_options
from .figures import (
    age,
    number,
    queue_data,
    queue_name,
    share,
    size,
    store_data,
    task_data,
    throughput_data,
    worth_showing,
)
from .locate import find_app
from .output import console_for, print_json, print_table

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
    """Show statistics of queues: jobs by label, rates and latencies of the last complete minutes, the store's health.

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
                "queues": [queue_data(one) for one in queues],
                "minutes": minutes,
                "throughput": [throughput_data(rate) for rate in rates],
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
        print_json({"minutes": minutes, "tasks": [task_data(one) for one in found]})
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
            *(f"{rate.per_minute(name):.4g}" for name in _EVENTS),
            *(_spread(rate, name) for name in ("wait", "run", "total")),
        )
        for rate in rates
    ]
    columns = ("queue", *(f"{name}#" for name in _EVENTS))
    latencies = ("wait p50/p95/p99#", "run p50/p95/p99#", "total p50/p95/p99#")
    print_table((*columns, *latencies), rows, empty=_NOTHING)


def _spread(rate: Throughput, name: str) -> str:
    point = rate.latencies.get(name)
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
