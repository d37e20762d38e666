"""Errors by kind, over HTTP."""

from __future__ import annotations

import pytest

import holdfast
from tests.patience import SOON

from .web_kit import Site


@pytest.fixture
def failed(app: holdfast.App) -> str:
    """A job that failed, and whose error was counted."""
    job = app.enqueue(app.tasks["broken"].job("no such mailbox"), tenant="acme")
    with app.worker(meter_interval=0.05):
        job.wait(timeout=SOON)
        while not app.errors.list():
            job.wait(timeout=SOON)
    return job.id


def test_errors_are_listed_and_shown(site: Site, failed: str) -> None:
    (group,) = site.get("/errors")["items"]
    assert (group["task"], group["type"], group["last_job"], group["count"]) == ("broken", "ValueError", failed, 1)
    assert "traceback" not in group
    assert "no such mailbox" in site.get(f"/errors/{group['fingerprint']}")["traceback"]
    assert site.get("/errors?task=double")["items"] == []
    assert site.get("/errors?since=2999-01-01T00:00:00Z")["items"] == []


def test_a_tenant_sees_the_errors_of_its_own_jobs(site: Site, failed: str) -> None:
    assert [one["last_job"] for one in site.as_role("viewer", tenant="acme").get("/errors")["items"]] == [failed]
    assert site.as_role("viewer", tenant="globex").get("/errors")["items"] == []


def test_what_is_unknown_or_does_not_fit_is_refused(site: Site) -> None:
    assert site.refused("GET", "/errors/x")[0] == 404
    for query, name in (("limit=0", "limit"), ("since=yesterday", "since"), ("colour=red", "colour")):
        status, message = site.refused("GET", f"/errors?{query}")
        assert (status, name in message) == (400, True)
