"""Secrets in what a handler raises: stored, shown and logged nowhere; tracebacks are for those who may see payloads."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

import holdfast

from .web_kit import Site

SECRET = "hunter2hunter2"
TEXT = f"cannot reach postgresql://shop:{SECRET}@db/shop, Authorization: Bearer {SECRET}, api_key={SECRET}"


@pytest.fixture
def failed(app: holdfast.App, site: Site) -> str:
    """A job that failed with secrets in its error."""
    job = app.enqueue(app.tasks["broken"].job(TEXT))
    app.drain()
    app.enqueue(app.tasks["double"].job(1))
    return job.id


def test_an_error_is_stored_without_its_secrets(app: holdfast.App, failed: str) -> None:
    record, attempts = app.jobs.get(failed), app.jobs.attempts(failed)
    assert SECRET not in (record.error or "")
    assert "cannot reach postgresql://[redacted]@db" in json.loads(record.error or "")["message"]
    assert attempts and not [one for one in attempts if SECRET in (one.error or "")]


def test_the_log_of_a_failed_run_has_no_secret(app: holdfast.App, caplog: pytest.LogCaptureFixture) -> None:
    app.enqueue(app.tasks["broken"].job(TEXT))
    with caplog.at_level(logging.DEBUG):
        app.drain()
    assert "failed" in caplog.text
    assert SECRET not in caplog.text


def test_the_value_of_an_argument_that_is_named_a_secret_is_in_no_error(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(max_attempts=1)
    def log_in(user: str, password: str) -> None:
        raise PermissionError(f"{user} is refused with {password}")

    job = log_in.enqueue("ann", password="correct horse")
    with caplog.at_level(logging.DEBUG):
        app.drain()
    error = app.jobs.get(job.id).error or ""
    assert json.loads(error)["message"] == "ann is refused with [redacted]"
    assert "correct horse" not in error + caplog.text


@pytest.mark.parametrize("path", ["/jobs/{id}", "/jobs/{id}/result", "/jobs/{id}/attempts"])
def test_a_traceback_needs_the_scope_payload(site: Site, failed: str, path: str) -> None:
    seen, whole = (json.dumps(one.get(path.format(id=failed))) for one in (site.as_role("viewer"), site))
    assert "ValueError" in seen and "Traceback" not in seen
    assert "Traceback" in whole


def test_a_page_shows_a_traceback_to_those_who_may_see_payloads(site: Site, failed: str) -> None:
    for path in (f"/jobs/{failed}", f"/jobs/{failed}?tab=attempts"):
        seen, whole = (one.call("GET", path).text for one in (site.as_role("viewer", tenant=None), site))
        assert "ValueError" in seen and "Traceback (most" not in seen
        assert "Traceback (most" in whole
        site.app.tokens.revoke("viewer-all")


def test_a_worker_elsewhere_cannot_store_a_secret_in_an_error(app: holdfast.App, site: Site) -> None:
    job = app.enqueue(app.tasks["double"].job(1))
    worker = site.post("/work/register", {"name": "w", "queues": ["default"], "tasks": ["double"]})["worker"]
    (held,) = site.post("/work/claim", {"worker": worker})["jobs"]
    error = {"message": TEXT, "type": "Odd", "traceback": TEXT}
    site.post("/work/finish", {"handle": held["handle"], "end": {"outcome": "fail", "error": error}})
    assert SECRET not in (app.jobs.get(job.id).error or "")


def test_a_store_that_is_away_is_a_generic_error_for_clients_and_no_password_is_shown_anywhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = holdfast.App(f"postgresql://shop:{SECRET}@127.0.0.1:1/none?sslpassword={SECRET}")
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        for path in ("/jobs", "/queues", "/health"):
            answer = site.call("GET", f"/api/v1{path}")
            assert answer.status_code == 503
            assert "127.0.0.1" not in answer.text and SECRET not in answer.text
        dumped = site.call("GET", "/api/v1/settings")
        assert "postgresql://shop:***@" in dumped.text and SECRET not in dumped.text
        site.close()
    app.close()
    assert "a request failed" in caplog.text
    assert SECRET not in caplog.text
