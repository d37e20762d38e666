"""The first page: figures, what needs somebody, queues and failures."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import holdfast
from holdfast.clock import SYSTEM_CLOCK
from holdfast.model.budgets import Budget, BudgetLine
from holdfast.model.limits import BreakerRecord
from holdfast.model.stats import MINUTE, MetricPoint, QueueStats, StoreStats, WorkerStats
from holdfast.model.values import instant_of
from holdfast.storage.ops.stats import rollup
from holdfast.storage.port import Op
from holdfast.web.pages.activity import activity, pooled, timeline
from holdfast.web.pages.attention import attention
from holdfast.web.pages.store_checks import health_verdicts

from .form_kit import HOSTILE, live_parts, open_page
from .web_kit import Site


def test_an_empty_store_says_how_to_begin(site: Site) -> None:
    page = open_page(site, "/")
    assert "No queues yet" in page
    assert "All good" in page


def test_it_shows_queues_failures_and_what_needs_somebody(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["broken"].job("it broke"))
    app.drain()
    app.enqueue(app.tasks["double"].job(1))
    page = open_page(site, "/")
    assert "ValueError: it broke" in page
    assert "No live workers" in page
    assert "No worker serves queue default" in page


def test_where_nothing_ran_that_is_said_instead_of_drawn(site: Site) -> None:
    page = open_page(site, "/?window=15m")
    assert "No runs in this window" in page
    assert "data-chart=" not in page
    assert site.call("GET", "/?window=9y").status_code == 400


def test_tasks_are_listed_with_their_runs_failure_rate_and_times(site: Site, app: holdfast.App) -> None:
    assert 'aria-label="Tasks"' not in open_page(site, "/?window=4h")
    figures = {
        "counts": {"enqueued": 9, "started": 8, "succeeded": 6, "failed": 2},
        "run": {"sum": 8, "max": 2_500_000, "counts": {"2500000": 8}},
    }
    at = SYSTEM_CLOCK.now() // MINUTE * MINUTE - 3 * MINUTE
    row = {"minute": at, "task": "shop.double", "count": 25, "figures": json.dumps(figures)}
    app.open().write(Op(lambda tx: rollup.put(tx, rollup.Rolled([], [row]))))
    page = open_page(site, "/?window=1h")
    assert "/jobs?task=shop.double" in page
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td[^>]*>.*?</td>", page, re.DOTALL)]
    place = cells.index("shop.double")
    assert cells[place + 1 : place + 7] == ["9", "8", "6", "2", "0", "25.0 %"]
    assert "2.5 s" in cells[place + 7]
    assert site.call("GET", "/jobs?task=shop.double").status_code == 200


def test_what_ran_is_drawn(site: Site, app: holdfast.App) -> None:
    at = SYSTEM_CLOCK.now() // MINUTE * MINUTE - 3 * MINUTE
    wait = {"count": 7, "sum": 7_000_000, "p50": 1_000_000, "p95": 2_000_000, "p99": 2_000_000, "max": 2_000_000}
    rows: list[dict[str, Any]] = [
        {"queue": "mail", "metric": "succeeded", "minute": at, **dict.fromkeys(wait), "count": 7},
        {"queue": "mail", "metric": "wait", "minute": at, **wait},
    ]
    app.open().write(Op(lambda tx: rollup.put(tx, rollup.Rolled(rows, []))))
    for path in ("/", "/queues/mail"):
        page = open_page(site, path)
        assert "data-chart=" in page
        assert "No runs in this window" not in page


def test_each_of_its_parts_can_be_followed(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    assert live_parts(site, "/") == 6


def test_a_viewer_sees_it_and_a_tenant_only_what_is_his(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1), tenant="acme")
    app.enqueue(app.tasks["broken"].job("secret of globex"), tenant="globex")
    assert "default" in open_page(site.as_role("viewer"), "/")
    page = open_page(site.as_role("viewer", tenant="acme"), "/")
    assert "default" in page
    assert "mail" not in page
    assert "Throughput" not in page


def test_hostile_names_stay_text(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].options(queue="a<b>c").job(1))
    page = open_page(site, "/")
    assert "a&lt;b&gt;c" in page
    assert "a<b>c" not in page


def test_attention_names_the_worst_first_and_what_to_do() -> None:
    line = BudgetLine(
        dimension="tokens", limit=Decimal(10), soft=None, spent=Decimal(10), reserved=Decimal(0), left=Decimal(0),
        lifetime=Decimal(10),
        soft_breaches=0, hard_breaches=1,
    )  # fmt: skip
    budget = Budget(
        tenant="", name="research", within=None, every=None, cron=None, zone="UTC", next_reset=None, reset_at=None,
        resets=0, breached_at=None, origin="code", dimensions=(line,), blocked=3,
    )  # fmt: skip
    breaker = BreakerRecord(scope=HOSTILE, threshold=3, open_for=1, opened_at=1, open_until=9, now=5).shown
    lost = WorkerStats(
        id="w",
        name="w1",
        host="h",
        pid=1,
        queues=("mail",),
        state="lost",
        slots=1,
        running=0,
        oldest=(),
        beat_age=99,
        vitals=None,
    )
    queue = QueueStats.of("mail", counts={"waiting": 2}, oldest_due_age=1.0)
    store = health_verdicts(StoreStats(backend="sqlite", bytes=1, wal_bytes=10**9), None)
    found = attention([queue], [lost], [breaker], [budget], [], verdicts=store, failing=0.5, now=10**15)
    tones = [one.tone for one in found]
    assert tones == sorted(tones, key=["bad", "warn", "info"].index)
    titles = {one.title: one.advice for one in found}
    assert "No live workers" in titles
    assert "3 jobs are waiting" in titles["Budget research is exhausted"]
    assert "--queues mail" in titles["No worker serves queue mail"]
    others = {"Worker w1 is lost", f"Breaker {HOSTILE} is open", "Store: write-ahead log", "High failure rate"}
    assert others < set(titles)


def test_a_paused_queue_is_told_apart_from_one_that_nobody_serves() -> None:
    live = WorkerStats(
        id="w",
        name="w1",
        host="h",
        pid=1,
        queues=("x",),
        state="alive",
        slots=1,
        running=0,
        oldest=(),
        beat_age=0,
        vitals=None,
    )
    paused = QueueStats.of("mail", state="paused", counts={"waiting": 1}, oldest_due_age=1.0)
    late = QueueStats.of("x", counts={"waiting": 1, "running": 1}, oldest_due_age=900.0, workers=1, slots=1)
    found = attention([paused, late], [live], [], [], [], now=10**15)
    assert [one.title for one in found] == ["Queue x is behind", "Queue mail is paused"]
    assert "All 1 slots are busy" in found[0].advice


def _latency(queue: str, count: int, p50: float, most: float) -> MetricPoint:
    return MetricPoint(queue, "wait", instant_of(0), count, count * p50, p50, most, most, most)


def test_a_pooled_percentile_lies_between_those_of_its_parts() -> None:
    few, many = _latency("slow", 10, 8.0, 10.0), _latency("fast", 990, 0.1, 0.2)
    found = pooled([few, many], 0.5)
    assert found is not None and 0.05 < found < 0.2
    high = pooled([few, many], 0.995)
    assert high is not None and 5.0 < high <= 10.0
    assert pooled([], 0.5) is None
    alone = pooled([few], 0.5)
    assert alone is not None and abs(alone - 8.0) < 1e-6


def test_unfinished_jobs_are_reckoned_back_from_now() -> None:
    points = [
        MetricPoint("q", "enqueued", instant_of(0), 5),
        MetricPoint("q", "succeeded", instant_of(MINUTE), 3),
        MetricPoint("q", "failed", instant_of(2 * MINUTE), 1),
    ]
    did = activity(points, 3 * MINUTE, 3)
    assert did.unfinished(1) == [5, 2, 1]
    assert did.failing() == 0.25
    assert did.starts == [0, MINUTE, 2 * MINUTE]


def test_a_minute_that_is_not_closed_yet_is_no_dip() -> None:
    now = 100 * MINUTE + 30_000_000
    busy = timeline([MetricPoint("q", "succeeded", instant_of(98 * MINUTE), 7)], now, 15)
    assert busy.whole.starts[-1] == 98 * MINUTE
    assert busy.whole.per_minute("succeeded")[-1] == 7
    idle = timeline([MetricPoint("q", "succeeded", instant_of(90 * MINUTE), 7)], now, 15)
    assert idle.whole.starts[-1] == 97 * MINUTE
    assert idle.of("unknown").per_minute("succeeded") == [0.0] * 15
