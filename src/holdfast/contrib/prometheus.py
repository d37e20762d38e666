"""Metrics for Prometheus: `render(app)` is the page, `serve(app, ports)` shows it over HTTP.

Metrics of the store are the same in every process: scrape them from one. Those that start with `holdfast_worker_` or
`holdfast_store_operation_` are counted in this process since it started.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..model.stats import COUNTERS, LABELS, LATENCIES, OPERATION_BOUNDS
from ..telemetry import BUCKETS
from .exposition import CONTENT_TYPE, Exposition, Family
from .metrics_server import MetricsServer

if TYPE_CHECKING:
    from ..app import App

__all__ = ["CONTENT_TYPE", "FAMILIES", "MetricsServer", "render", "serve"]

_QUEUE: Final = ("queue",)
JOBS: Final = Family("holdfast_jobs", "gauge", "Jobs by queue and label.", ("queue", "label"))
ESTIMATED: Final = Family(
    "holdfast_jobs_estimated", "gauge", "1 if the count of that label is an estimate.", ("queue", "label")
)
OLDEST: Final = Family(
    "holdfast_oldest_due_age_seconds", "gauge", "Seconds that the oldest due job has been waiting.", _QUEUE
)
PAUSED: Final = Family("holdfast_queue_paused", "gauge", "1 while the queue starts no jobs.", _QUEUE)
COOLING: Final = Family("holdfast_queue_cooling_seconds", "gauge", "Seconds until a throttled queue resumes.", _QUEUE)
SLOTS: Final = Family("holdfast_queue_slots", "gauge", "Slots of the live workers that serve the queue.", _QUEUE)
SERVED: Final = Family("holdfast_queue_workers", "gauge", "Live workers that serve the queue.", _QUEUE)
USED: Final = Family("holdfast_queue_utilisation_ratio", "gauge", "Running jobs per slot.", _QUEUE)
MINUTE_JOBS: Final = Family("holdfast_minute_jobs", "gauge", "Events in the last complete minute.", ("queue", "event"))
MINUTE_SECONDS: Final = Family(
    "holdfast_minute_latency_seconds",
    "gauge",
    "Percentiles of the last complete minute: wait (due to start), run (start to end), total (enqueue to end).",
    ("queue", "span", "quantile"),
)
LIMIT: Final = Family("holdfast_limit_saturation_ratio", "gauge", "Share of a limit that is in use.", ("kind", "key"))
LIMITED: Final = Family("holdfast_limit_waiting_jobs", "gauge", "Jobs parked behind a limit.", ("kind", "key"))
_BUDGET: Final = ("budget", "dimension")
BUDGET_SPENT: Final = Family("holdfast_budget_spent", "gauge", "Spent since the budget was last reset.", _BUDGET)
BUDGET_RESERVED: Final = Family("holdfast_budget_reserved", "gauge", "Reserved by running jobs.", _BUDGET)
BUDGET_LIMIT: Final = Family("holdfast_budget_limit", "gauge", "Limit on spent and reserved amounts together.", _BUDGET)
BUDGET_BLOCKED: Final = Family("holdfast_budget_blocked_jobs", "gauge", "Jobs waiting for the budget.", ("budget",))
WORKERS: Final = Family("holdfast_workers", "gauge", "Registered workers by state.", ("state",))
STORE_BYTES: Final = Family("holdfast_store_bytes", "gauge", "Size of the database.")
STORE_FREE: Final = Family("holdfast_store_free_bytes", "gauge", "Empty pages inside it (SQLite).")
STORE_WAL: Final = Family("holdfast_store_wal_bytes", "gauge", "Size of the write-ahead log (SQLite).")
STORE_DEAD: Final = Family("holdfast_store_dead_rows", "gauge", "Dead rows that vacuum can remove (Postgres).")
STORE_OLDEST: Final = Family(
    "holdfast_store_oldest_transaction_seconds", "gauge", "Age of the oldest open transaction (Postgres)."
)
CLAIM: Final = Family(
    "holdfast_store_claim_seconds",
    "gauge",
    "Duration of a claim in the last minute, on the slowest worker.",
    ("quantile",),
)
ERRORS: Final = Family(
    "holdfast_error_runs_total", "counter", "Failed runs by error group.", ("task", "type", "fingerprint")
)
RUNS: Final = Family(
    "holdfast_worker_runs_total", "counter", "Runs that ended in this process.", ("queue", "task", "outcome")
)
RUN_SECONDS: Final = Family(
    "holdfast_worker_run_seconds", "histogram", "Duration of runs in this process.", ("queue", "task")
)
OPERATION_SECONDS: Final = Family(
    "holdfast_store_operation_seconds",
    "histogram",
    "Duration of store operations in this process.",
    ("operation", "outcome"),
)

FAMILIES: Final[Sequence[Family]] = (
    JOBS, ESTIMATED, OLDEST, PAUSED, COOLING, SLOTS, SERVED, USED, MINUTE_JOBS, MINUTE_SECONDS, LIMIT, LIMITED,
    BUDGET_SPENT, BUDGET_RESERVED, BUDGET_LIMIT, BUDGET_BLOCKED, WORKERS,
    STORE_BYTES, STORE_FREE, STORE_WAL, STORE_DEAD, STORE_OLDEST, CLAIM, ERRORS, RUNS, RUN_SECONDS,
    OPERATION_SECONDS,
)  # fmt: skip
_MOST: Final = 100
"""The most limits and kinds of error on the page: unbounded labels would burden the server that stores them."""


def render(app: App) -> str:
    """Return the page, read from the store and from this process."""
    page = Exposition()
    _add_queues(page, app)
    _add_minute(page, app)
    _add_limits(page, app)
    _add_budgets(page, app)
    _add_store(page, app)
    _add_process(page, app)
    return page.text()


def serve(app: App, ports: Sequence[int], host: str = "127.0.0.1", token: str | None = None) -> MetricsServer:
    """Serve the page under /metrics on the first free port of these, from its own thread.

    Beyond loopback every request must bring the `token`: `Authorization: Bearer …`. ConfigError if there is none.
    """
    return MetricsServer(partial(render, app), ports, host, token)


def _add_queues(page: Exposition, app: App) -> None:
    for queue in app.stats.queues():
        for label in LABELS:
            page.add(JOBS, queue.count(label), queue.name, label)
        for label in sorted(queue.estimated):
            page.add(ESTIMATED, 1, queue.name, label)
        page.add(OLDEST, queue.oldest_due_age or 0.0, queue.name)
        page.add(PAUSED, int(queue.is_paused), queue.name)
        page.add(COOLING, queue.cooling, queue.name)
        page.add(SLOTS, queue.slots, queue.name)
        page.add(SERVED, queue.workers, queue.name)
        page.add(USED, queue.utilisation, queue.name)


def _add_minute(page: Exposition, app: App) -> None:
    for minute in app.stats.throughput(1):
        for counter in COUNTERS:
            page.add(MINUTE_JOBS, int(minute.per_minute.get(counter, 0)), minute.queue, counter)
        for span in LATENCIES:
            if point := minute.worst_minute.get(span):
                for quantile, value in (("0.5", point.p50), ("0.95", point.p95), ("0.99", point.p99), ("1", point.max)):
                    page.add(MINUTE_SECONDS, value, minute.queue, span, quantile)


def _add_limits(page: Exposition, app: App) -> None:
    for limit in app.stats.limits()[:_MOST]:
        page.add(LIMIT, limit.saturation, limit.kind, limit.key)
        page.add(LIMITED, limit.waiting, limit.kind, limit.key)


def _add_budgets(page: Exposition, app: App) -> None:
    for budget in app.budgets.list(limit=_MOST):
        name = f"{budget.tenant}/{budget.name}" if budget.tenant else budget.name
        page.add(BUDGET_BLOCKED, budget.blocked, name)
        for line in budget.dimensions:
            page.add(BUDGET_SPENT, float(line.spent), name, line.dimension)
            page.add(BUDGET_RESERVED, float(line.reserved), name, line.dimension)
            if line.limit is not None:
                page.add(BUDGET_LIMIT, float(line.limit), name, line.dimension)


def _add_store(page: Exposition, app: App) -> None:
    workers = app.stats.workers()
    for state in sorted({"alive", *(worker.state for worker in workers)}):
        page.add(WORKERS, sum(worker.state == state for worker in workers), state)
    store = app.stats.store()
    page.add(STORE_BYTES, store.bytes)
    page.add(STORE_FREE, store.free_bytes)
    page.add(STORE_WAL, store.wal_bytes)
    page.add(STORE_DEAD, store.dead_rows)
    page.add(STORE_OLDEST, store.oldest_transaction)
    page.add(CLAIM, store.claim_p50, "0.5")
    page.add(CLAIM, store.claim_p99, "0.99")
    for group in app.errors.list(limit=_MOST):
        page.add(ERRORS, group.count, group.task, group.type, group.fingerprint)


def _add_process(page: Exposition, app: App) -> None:
    # Copied first: the worker's loop continues to count.
    tasks = sorted(dict(app.tally.tasks).items(), key=lambda item: item[0])
    for (queue, task), tally in tasks:
        for outcome, count in sorted(dict(tally.outcomes).items()):
            page.add(RUNS, count, queue, task, outcome)
    for (queue, task), tally in tasks:
        page.add_histogram(RUN_SECONDS, BUCKETS, list(tally.counts), tally.sum, queue, task)
    for one in app.stats.operations():
        page.add_histogram(OPERATION_SECONDS, OPERATION_BOUNDS, one.buckets, one.sum, one.operation, one.outcome)
