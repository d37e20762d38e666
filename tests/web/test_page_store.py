"""The page of the store: facts, verdicts and advice."""

from __future__ import annotations

import holdfast
from holdfast.model.stats import StoreStats, WorkerStats
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op
from holdfast.web.pages.store_checks import Verdict, fact_verdicts, health_verdicts

from .form_kit import live_parts, open_page
from .web_kit import Site


def test_it_says_what_the_store_is_and_can_do(site: Site, app: holdfast.App) -> None:
    page = open_page(site, "/store")
    backend = app.capabilities().backend
    assert ("SQLite" if backend == "sqlite" else "Postgres") in page
    assert "Survives power loss" in page
    assert "No worker runs jobs" in page
    assert live_parts(site, "/store") == 5
    assert "Operations of this server" in page
    assert "stats.workers" in open_page(site, "/store")


def test_a_worker_that_leads_is_named(site: Site, app: holdfast.App) -> None:
    with app.worker(concurrency=1, name="w1"):
        (worker,) = app.workers.list()
        app.open().write(Op(lambda tx: workers.lead(tx, ["tea"], worker.id, 60_000_000)))
        assert app.stats.leaders()["tea"] == worker.id
        page = open_page(site, "/store")
    assert 'data-key="tea"' in page
    assert "w1" in page


def test_its_size_is_drawn_minute_by_minute(site: Site, app: holdfast.App) -> None:
    assert '"series": []' in open_page(site, "/store")
    app.stats.roll()
    page = open_page(site, "/store")
    assert 'id="chart-size"' in page
    assert '"label": "database"' in page


def test_no_password_is_shown_and_viewers_may_look(site: Site) -> None:
    page = open_page(site.as_role("viewer"), "/store")
    assert "postgresql://" not in page


def test_it_is_not_a_tenants(site: Site) -> None:
    assert "403" in open_page(site.as_role("admin", tenant="acme"), "/store", 403)


def _by_key(found: list[Verdict]) -> dict[str, str]:
    return {one.key: one.verdict for one in found}


def test_figures_are_judged() -> None:
    well = StoreStats(backend="sqlite", bytes=1_000, free_bytes=0, wal_bytes=10, claim_p50=0.001, claim_p99=0.01)
    assert set(_by_key(health_verdicts(well, 10**12)).values()) == {"good", "plain"}
    ill = StoreStats(
        backend="postgres", bytes=1_000, wal_bytes=10**9, dead_rows=50_000, live_rows=10, oldest_transaction=7_200.0,
        claim_p50=0.1, claim_p99=2.0, writes_waiting=5_000,
    )  # fmt: skip
    found = _by_key(health_verdicts(ill, 1_000))
    assert found == {
        "size": "good", "wal": "warn", "disk": "bad", "dead": "warn", "live": "plain", "snapshot": "bad",
        "claim-p50": "plain", "claim-p99": "bad", "writes": "warn",
    }  # fmt: skip
    assert all(one.advice for one in health_verdicts(ill, 1_000) if one.verdict in ("warn", "bad"))


def test_facts_are_judged() -> None:
    live = WorkerStats(
        id="w",
        name="w",
        host="h",
        pid=1,
        queues=(),
        state="alive",
        slots=1,
        running=0,
        oldest=(),
        beat_age=0.0,
        vitals=None,
    )
    lax = {"backend": "sqlite", "sqlite_version": "3.40.1", "wal_reset_bug": "fixed", "synchronous": "normal"}
    assert _by_key(fact_verdicts(lax, [live]))["durability"] == "warn"
    postgres = {
        "backend": "postgres", "server_version": "17", "fsync": "off", "synchronous_commit": "on", "in_recovery": 1,
        "connections": 95, "max_connections": 100, "notify_queue_usage": 0.9, "clock_skew_seconds": -9.0,
    }  # fmt: skip
    found = _by_key(fact_verdicts(postgres, []))
    assert found == {
        "version": "bad", "durability": "bad", "connections": "warn", "notify": "warn", "clock": "warn",
        "workers": "warn",
    }  # fmt: skip
