"""The Grafana dashboard and the Prometheus alerts, from the catalogue of metrics: `python -m tools.monitoring`.

They are written to examples/monitoring. What is read from the store is the same in each process that is scraped, so
queries take the maximum over them; what a process counts itself is added up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.contrib import prometheus as metrics
from holdfast.contrib.exposition import Family

FOLDER: Final = Path(__file__).parent.parent / "examples" / "monitoring"
DASHBOARD: Final = "grafana-dashboard.json"
ALERTS: Final = "alerts.yaml"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).write_text(text, "utf-8")


def files() -> dict[str, str]:
    """Return the generated files by name."""
    return {DASHBOARD: json.dumps(dashboard(), indent=2) + "\n", ALERTS: alerts()}


# -- queries


def stored(family: Family, *by: str, **where: str) -> str:
    """Return the query of a metric of the store, by these labels."""
    return f"max{_by(by)} ({_selected(family.name, family, where)})"


def counted(name: str, family: Family, *by: str, **where: str) -> str:
    """Return the query of what all processes count per second, by these labels."""
    return f"sum{_by(by)} (rate({_selected(name, family, where)}[$__rate_interval]))"


def quantile(q: float, family: Family, *by: str, **where: str) -> str:
    """Return the query of a quantile of a histogram, over all processes."""
    return f"histogram_quantile({q}, {counted(f'{family.name}_bucket', family, 'le', *by, **where)})"


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _selected(name: str, family: Family, where: dict[str, str]) -> str:
    # The variable of the dashboard; alerts have none and cover all queues.
    parts = [f'{label}="{value}"' for label, value in where.items()]
    if "queue" in family.labels:
        parts.append('queue=~"$queue"')
    return f"{name}{{{', '.join(parts)}}}" if parts else name


# -- the dashboard


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: queries, each with its legend, in one unit."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False


_M: Final = metrics
ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Now",
        (
            Panel("Workers", "short", ((stored(_M.WORKERS, state="alive"), ""),), "stat", 4),
            Panel("Waiting", "short", ((f"sum({stored(_M.JOBS, 'queue', label='waiting')})", ""),), "stat", 4),
            Panel("Running", "short", ((f"sum({stored(_M.JOBS, 'queue', label='running')})", ""),), "stat", 4),
            Panel("Oldest due job", "s", ((stored(_M.OLDEST), ""),), "stat", 4),
            Panel("Slots in use", "percentunit", ((stored(_M.USED), ""),), "stat", 4),
            Panel("Paused queues", "short", ((f"sum({stored(_M.PAUSED, 'queue')})", ""),), "stat", 4),
        ),
    ),
    (
        "Queues",
        (
            Panel("Waiting jobs", "short", ((stored(_M.JOBS, "queue", label="waiting"), "{{queue}}"),)),
            Panel("Age of the oldest due job", "s", ((stored(_M.OLDEST, "queue"), "{{queue}}"),)),
            Panel("Slots in use", "percentunit", ((stored(_M.USED, "queue"), "{{queue}}"),)),
            Panel(
                "Jobs by label",
                "short",
                ((f"sum by (label) ({stored(_M.JOBS, 'queue', 'label')})", "{{label}}"),),
                stacked=True,
            ),
            Panel("Slots", "short", ((stored(_M.SLOTS, "queue"), "{{queue}}"),)),
            Panel("Throttled queues resume in", "s", ((stored(_M.COOLING, "queue"), "{{queue}}"),)),
        ),
    ),
    (
        "Runs",
        (
            Panel(
                "Jobs per minute",
                "short",
                ((f"sum by (event) ({stored(_M.MINUTE_JOBS, 'queue', 'event')})", "{{event}}"),),
            ),
            Panel(
                "Wait, 95 %",
                "s",
                ((stored(_M.MINUTE_SECONDS, "queue", span="wait", quantile="0.95"), "{{queue}}"),),
            ),
            Panel(
                "Run, 95 %",
                "s",
                ((stored(_M.MINUTE_SECONDS, "queue", span="run", quantile="0.95"), "{{queue}}"),),
            ),
            Panel(
                "Runs per second by outcome",
                "ops",
                ((counted(_M.RUNS.name, _M.RUNS, "outcome"), "{{outcome}}"),),
                stacked=True,
            ),
            Panel(
                "Runs per second by task", "ops", ((counted(_M.RUNS.name, _M.RUNS, "task"), "{{task}}"),), stacked=True
            ),
            Panel("Run time by task, 95 %", "s", ((quantile(0.95, _M.RUN_SECONDS, "task"), "{{task}}"),)),
            Panel(
                "Failed runs per second",
                "ops",
                ((f"max by (task, type) (rate({_M.ERRORS.name}[$__rate_interval]))", "{{task}} {{type}}"),),
                width=24,
            ),
        ),
    ),
    (
        "Limits and budgets",
        (
            Panel("Use of limits", "percentunit", ((stored(_M.LIMIT, "kind", "key"), "{{kind}} {{key}}"),)),
            Panel("Jobs behind limits", "short", ((stored(_M.LIMITED, "kind", "key"), "{{kind}} {{key}}"),)),
            Panel(
                "Use of budgets",
                "percentunit",
                (
                    (
                        f"({stored(_M.BUDGET_SPENT, 'budget', 'dimension')}"
                        f" + {stored(_M.BUDGET_RESERVED, 'budget', 'dimension')})"
                        f" / {stored(_M.BUDGET_LIMIT, 'budget', 'dimension')}",
                        "{{budget}} {{dimension}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Store",
        (
            Panel(
                "Size",
                "bytes",
                (
                    (stored(_M.STORE_BYTES), "database"),
                    (stored(_M.STORE_FREE), "free pages"),
                    (stored(_M.STORE_WAL), "write-ahead log"),
                ),
            ),
            Panel("Claims", "s", ((stored(_M.CLAIM, "quantile"), "{{quantile}}"),)),
            Panel("Oldest open transaction", "s", ((stored(_M.STORE_OLDEST), ""),)),
            Panel(
                "Operations per second",
                "ops",
                ((counted(f"{_M.OPERATION_SECONDS.name}_count", _M.OPERATION_SECONDS, "operation"), "{{operation}}"),),
            ),
            Panel("Operations, 95 %", "s", ((quantile(0.95, _M.OPERATION_SECONDS, "operation"), "{{operation}}"),)),
            Panel("Dead rows", "short", ((stored(_M.STORE_DEAD), ""),)),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    queues = f"label_values({metrics.JOBS.name}, queue)"
    return {
        "title": "Holdfast",
        "uid": "holdfast",
        "tags": ["holdfast", "jobs"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "queue", "type": "query", "datasource": _SOURCE, "query": queues, "refresh": 2, "sort": 1,
                    "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": list(_placed()),
    }  # fmt: skip


def _placed() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}}  # fmt: skip
        x, y = 0, y + 1
        height = 8
        for panel in panels:
            number += 1
            height = 4 if panel.kind == "stat" else 8
            if x + panel.width > _WIDTH:
                x, y = 0, y + height
            yield _drawn(panel, number, {"x": x, "y": y, "w": panel.width, "h": height})
            x += panel.width
        y += height


def _drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults["custom"] = {"fillOpacity": 20 if panel.stacked else 0, "stacking": stacking}
    targets = [
        {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": expression, "legendFormat": legend or "__auto"}
        for n, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "datasource": _SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []}, "targets": targets,
    }  # fmt: skip


# -- the alerts


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule of Prometheus."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    description: str


def _of_all(query: str) -> str:
    """Return a query of the dashboard for all queues."""
    return query.replace(', queue=~"$queue"', "").replace('{queue=~"$queue"}', "")


_FAILED: Final = _of_all(stored(metrics.MINUTE_JOBS, "queue", event="failed"))
_SUCCEEDED: Final = _of_all(stored(metrics.MINUTE_JOBS, "queue", event="succeeded"))
_SPENT: Final = "({} + {}) / {}".format(
    *(stored(one, "budget", "dimension") for one in (_M.BUDGET_SPENT, _M.BUDGET_RESERVED, _M.BUDGET_LIMIT))
)
RULES: Final = (
    Alert(
        "HoldfastJobsWaitTooLong", f"{_of_all(stored(_M.OLDEST, 'queue'))} > 300", "5m", "warning",
        "Jobs of queue {{ $labels.queue }} wait too long",
        "The oldest due job has waited for {{ $value | humanizeDuration }}. Add workers, or find what holds it up.",
    ),
    Alert(
        "HoldfastQueueWithoutWorkers",
        f"{_of_all(stored(_M.JOBS, 'queue', label='waiting'))} > 0 and {_of_all(stored(_M.SERVED, 'queue'))} == 0",
        "5m", "critical", "No worker serves queue {{ $labels.queue }}",
        "{{ $value }} jobs are waiting. Start a worker with this queue.",
    ),
    Alert(
        "HoldfastNoWorkers", f"{stored(_M.WORKERS, state='alive')} == 0", "2m", "critical", "No worker is alive",
        "Jobs are accepted and none is run.",
    ),
    Alert(
        "HoldfastNoMetrics", f"absent({_M.WORKERS.name})", "5m", "critical", "There are no metrics of Holdfast",
        "No process that shows them is running, or Prometheus cannot reach it.",
    ),
    Alert(
        "HoldfastManyFailures", f"{_FAILED} / ({_FAILED} + {_SUCCEEDED}) > 0.1", "10m", "warning",
        "Jobs of queue {{ $labels.queue }} fail",
        "{{ $value | humanizePercentage }} of the jobs that ended in the last minute have failed for good."
        " See: holdfast errors list",
    ),
    Alert(
        "HoldfastQueuePaused", f"{_of_all(stored(_M.PAUSED, 'queue'))} == 1", "1h", "info",
        "Queue {{ $labels.queue }} is paused", "It has been paused for an hour. See: holdfast queues resume",
    ),
    Alert(
        "HoldfastBreakerOpen", f"{stored(_M.LIMIT, 'key', kind='breaker')} == 1", "5m", "warning",
        "The circuit breaker {{ $labels.key }} is not closed", "Jobs that name it wait until one of them succeeds.",
    ),
    Alert(
        "HoldfastBudgetNearlySpent", f"{_SPENT} > 0.9", "1m", "warning",
        "Budget {{ $labels.budget }} is nearly spent",
        "{{ $value | humanizePercentage }} of its {{ $labels.dimension }} is spent or reserved.",
    ),
    Alert(
        "HoldfastSlowClaims", f"{stored(_M.CLAIM, quantile='0.99')} > 1", "10m", "warning", "Claims are slow",
        "One claim in a hundred takes {{ $value | humanizeDuration }}. See: holdfast doctor",
    ),
    Alert(
        "HoldfastStoreErrors",
        f'sum by (instance) (rate({_M.OPERATION_SECONDS.name}_count{{outcome="error"}}[5m])) > 0', "5m", "warning",
        "The store fails for {{ $labels.instance }}",
        "{{ $value | humanize }} operations a second fail. See the log of that process.",
    ),
    Alert(
        "HoldfastOldTransaction", f"{stored(_M.STORE_OLDEST)} > 600", "5m", "warning",
        "A transaction has been open for {{ $value | humanizeDuration }}",
        "It keeps Postgres from cleaning up, and claims become slow. End it.",
    ),
    Alert(
        "HoldfastLargeWriteAheadLog", f"{stored(_M.STORE_WAL)} > 1073741824", "15m", "warning",
        "The write-ahead log has {{ $value | humanize1024 }}B",
        "A reader that never ends keeps SQLite from truncating it. Restart that process.",
    ),
)  # fmt: skip


def alerts() -> str:
    """Return the rules as Prometheus reads them."""
    lines = ["# Made by tools/monitoring.py.", "groups:", "  - name: holdfast", "    rules:"]
    for rule in RULES:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(rule.expression)}",
            f"        for: {rule.lasts}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.description)}",
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
