"""Health over HTTP: open to everybody, and tells nobody a secret."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from datetime import datetime
from importlib import import_module
from pathlib import Path

import pytest

import holdfast
from tests.postgres_server import url_of

from .web_kit import Site

health_checks = import_module("holdfast.web.api.health")


def test_a_process_lives_and_is_ready(site: Site) -> None:
    nobody = site.as_nobody()
    assert nobody.get("/health/live") == {"status": "ok"}
    assert nobody.get("/health/ready")["status"] == "ok"
    health = nobody.get("/health")
    assert (health["status"], health["reasons"]) == ("ok", [])


def test_a_queue_that_nobody_serves_is_named_to_those_who_may_look(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["broken"].job("x"))
    stranger = site.as_nobody().get("/health")
    assert stranger["status"] == "degraded"
    assert [one["code"] for one in stranger["reasons"]] == ["unserved"]
    assert "mail" not in str(stranger)
    assert "mail" in site.as_role("viewer").get("/health")["reasons"][0]["message"]
    assert "mail" not in str(site.as_role("viewer", tenant="acme").get("/health"))


def test_a_paused_queue_is_as_it_was_meant(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["broken"].job("x"))
    app.queues.pause("mail")
    assert site.get("/health")["status"] == "ok"


def test_one_look_serves_all_who_ask_at_once(site: Site, app: holdfast.App) -> None:
    first = site.get("/health")
    app.enqueue(app.tasks["broken"].job("x"))
    assert site.get("/health") == first


def test_little_space_and_a_large_log_are_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_checks, "_LITTLE_SPACE", 2**60)
    monkeypatch.setattr(health_checks, "_LARGE_WAL", -1)
    codes = {one["code"] for one in site.get("/health")["reasons"]}
    assert codes in ({"store_full", "wal_large"}, {"wal_large"})


def test_a_store_without_a_schema_is_not_ready(blank_postgres_dsn: str) -> None:
    app = holdfast.App(url_of(blank_postgres_dsn))
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        ready = site.call("GET", "/api/v1/health/ready")
        health = site.call("GET", "/api/v1/health")
        site.close()
    app.close()
    assert (ready.status_code, ready.json()["reasons"][0]["code"]) == (503, "schema")
    assert (health.status_code, health.json()["status"]) == (503, "down")
    assert "dbname" not in health.text


def test_a_store_that_cannot_be_opened_is_down(tmp_path: Path) -> None:
    app = holdfast.App(str(tmp_path / "nowhere" / "jobs.db"))
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        live = site.call("GET", "/api/v1/health/live")
        ready = site.call("GET", "/api/v1/health/ready")
        site.close()
    app.close()
    assert (live.status_code, ready.status_code) == (200, 503)
    assert "nowhere" not in ready.text


def test_a_schema_that_is_too_new_to_be_written_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    holdfast.App(path).migrate()
    with contextlib.closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("insert into holdfast_migration values (9999, '9999_future', 0, 9999)")
    app = holdfast.App(path)
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        answer = site.call("GET", "/api/v1/health/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, "down")
        site.close()
    app.close()


def test_the_last_delivery_is_told(site: Site, app: holdfast.App) -> None:
    @app.destination("cloud")
    def deliver(events: list[holdfast.model.OutboxEvent]) -> None: ...

    assert site.get("/health")["last_delivery"] is None
    app.outbox("cloud").put(1)
    app.drain()
    health_checks.check_up.__self__._last.clear()
    assert site.as_nobody().get("/health")["last_delivery"] is not None


def test_an_inventory_that_cannot_be_reached_is_told(site: Site, app: holdfast.App) -> None:
    def fetch() -> list[str]:
        raise ConnectionError("no answer")

    app.task(name="paint", inventory=app.inventory("models", fetch))(lambda: None)
    app.tasks["paint"].options(affinity="m").enqueue()
    codes = {one["code"]: one["message"] for one in site.get("/health")["reasons"]}
    assert "models" in codes["inventory_degraded"]


def test_the_last_answer_of_an_inventory_is_told(site: Site, app: holdfast.App) -> None:
    models = app.inventory("models", lambda: ["m"])
    app.task(name="paint", inventory=models)(lambda: None)
    assert site.get("/health")["last_poll"] is None
    app.tasks["paint"].options(affinity="m").enqueue()
    health_checks.check_up.__self__._last.clear()
    told = site.as_nobody().get("/health")["last_poll"]
    assert models.last_poll is not None
    assert datetime.fromisoformat(told) == models.last_poll
