"""The store, the settings and the metrics, over HTTP."""

from __future__ import annotations

import asyncio

import pytest

import holdfast

from .web_kit import Site


def test_the_store_says_what_it_is(site: Site, app: holdfast.App) -> None:
    store = site.get("/store")
    assert store["capabilities"]["backend"] == store["facts"]["backend"] == store["health"]["backend"]
    assert store["capabilities"]["schema"] > 0
    assert store["health"]["bytes"] > 0


def test_settings_are_shown_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "7")
    app = holdfast.App("postgresql://u:hunter2@db/x", listen_dsn="postgresql://u:hunter3@db/x")
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        settings = site.get("/settings")["settings"]
        site.close()
    assert settings["concurrency"] == {"value": 7, "from": "HOLDFAST_CONCURRENCY"}
    assert settings["store"] == {"value": "postgresql://u:***@db/x", "from": "code"}
    assert "hunter" not in str(settings)


def test_metrics_are_text_for_prometheus(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    answer = site.call("GET", "/api/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'holdfast_jobs{queue="default",label="waiting"} 1' in answer.text


def test_only_an_admin_sees_settings_and_no_tenant_the_store(site: Site) -> None:
    operator = site.as_role("operator")
    assert operator.refused("GET", "/settings")[0] == 403
    assert operator.get("/store")["facts"]
    acme = site.as_role("admin", tenant="acme")
    for path in ("/settings", "/store", "/metrics"):
        assert acme.refused("GET", path)[0] == 403
