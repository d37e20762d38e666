"""Numbers over HTTP."""

from __future__ import annotations

import json

import holdfast
from holdfast.clock import SYSTEM_CLOCK
from holdfast.model.stats import MINUTE
from holdfast.storage.ops.stats import rollup
from holdfast.storage.port import Op

from .web_kit import Site


def test_queues_and_workers_are_counted_now(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    (queue,) = site.get("/stats/queues")["items"]
    assert (queue["name"], queue["counts"]["waiting"], queue["workers"]) == ("default", 1, 0)
    assert site.get("/stats/workers")["items"] == []


def test_limits_show_how_full_they_are(site: Site, app: holdfast.App) -> None:
    app.limits.set_concurrency(4, task="double")
    (limit,) = site.get("/stats/limits")["items"]
    assert (limit["kind"], limit["key"], limit["saturation"]) == ("concurrency", "task:double", 0)


def test_minutes_that_nobody_has_closed_are_empty(site: Site) -> None:
    assert site.get("/stats/throughput")["items"] == []
    assert site.get("/stats/tasks?minutes=1440")["items"] == []
    assert site.get("/stats/timeline?minutes=240")["items"] == []
    assert site.get("/stats/series?queue=default&metric=wait&before=2024-05-01T00:00:00Z")["items"] == []


def test_what_there_is_not_is_named(site: Site) -> None:
    for path, name in (
        ("/stats/series?queue=default&metric=joy", "metric"),
        ("/stats/series?metric=wait", "queue"),
        ("/stats/timeline?minutes=241", "minutes"),
        ("/stats/throughput?hours=1", "hours"),
        ("/stats/tasks?minutes=1441", "minutes"),
    ):
        status, message = site.refused("GET", path)
        assert (status, name in message) == (400, True), path


def test_a_tenant_sees_its_own_queues_alone(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1), tenant="acme")
    acme = site.as_role("viewer", tenant="acme")
    assert acme.get("/stats/queues")["items"][0]["counts"]["waiting"] == 1
    assert site.as_role("viewer", tenant="globex").get("/stats/queues")["items"] == []
    for part in ("throughput", "tasks", "operations", "timeline", "limits", "workers"):
        assert acme.refused("GET", f"/stats/{part}")[0] == 403


def test_the_health_of_past_minutes_is_listed(site: Site, app: holdfast.App) -> None:
    app.stats.roll()
    assert site.get("/stats/health?before=2024-05-01T00:00:00Z")["items"] == []
    found = site.get("/stats/health")["items"]
    assert [(one["workers"], one["bytes"] > 0) for one in found] == [(0, True)]
    (one,) = found
    if app.capabilities().backend == "sqlite":
        assert one["wal_bytes"] >= 0
        assert one["disk_free"] > 0
        assert (one["pool_peak"], one["pool_size"]) == (None, None)
    else:
        assert (one["wal_bytes"], one["disk_free"]) == (None, None)
        assert 1 <= one["pool_peak"] <= one["pool_size"]


def test_the_operations_of_the_server_are_timed(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    found = {(one["operation"], one["outcome"]): one for one in site.get("/stats/operations")["items"]}
    enqueued = found["enqueue", "ok"]
    assert enqueued["count"] == 1
    assert enqueued["sum"] == enqueued["mean"] == enqueued["max"] == enqueued["p99"] > 0


def test_tasks_have_counts_a_failure_rate_and_times(site: Site, app: holdfast.App) -> None:
    figures = {
        "counts": {"enqueued": 5, "started": 4, "succeeded": 3, "retried": 1},
        "run": {"sum": 6_000_000, "max": 3_000_000, "counts": {"1500000": 2, "3000000": 1}},
    }
    at = SYSTEM_CLOCK.now() // MINUTE * MINUTE - 3 * MINUTE
    row = {"minute": at, "task": "double", "count": 13, "figures": json.dumps(figures)}
    app.open().write(Op(lambda tx: rollup.put(tx, rollup.Rolled([], [row]))))
    (found,) = site.get("/stats/tasks")["items"]
    assert (found["task"], found["failure_rate"], found["wait"]) == ("double", 0.25, None)
    assert (found["counts"]["succeeded"], found["counts"]["failed"]) == (3, 0)
    assert found["run"] == {"count": 3, "mean": 2.0, "p50": 1.5, "p95": 3.0, "p99": 3.0, "max": 3.0}
