"""Finding jobs over HTTP and looking at them."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

import holdfast
from holdfast.client import jobs as client_jobs

from .web_kit import Site


def add(app: holdfast.App, n: int = 1, *, task: str = "double", **options: Any) -> list[str]:
    value: Any = 1 if task == "double" else "oh"
    return [app.enqueue(app.tasks[task].options(**options).job(value)).id for _ in range(n)]


def ids(page: Any) -> list[str]:
    return [job["id"] for job in page["items"]]


def run_all(app: holdfast.App) -> None:
    app.drain()


def test_jobs_are_listed_newest_first_by_page(site: Site, app: holdfast.App) -> None:
    made = add(app, 5)
    first = site.get("/jobs?limit=3")
    assert ids(first) == made[:1:-1]
    rest = site.get(f"/jobs?limit=3&after={first['next']}")
    assert (ids(rest), rest["next"]) == (made[1::-1], None)


def test_filters_narrow_the_list(site: Site, app: holdfast.App) -> None:
    (plain,) = add(app)
    (tagged,) = add(app, tags=["blue"], priority=5, tenant="acme")
    (failed,) = add(app, task="broken")
    run_all(app)
    (waiting,) = add(app, delay=60)
    for query, expected in (
        ("state=failed", [failed]),
        ("state=failed&state=ready", [waiting, failed]),
        ("queue=mail", [failed]),
        ("task=broken", [failed]),
        ("tag=blue", [tagged]),
        ("priority=5", [tagged]),
        ("tenant=acme", [tagged]),
        (f"id={plain}", [plain]),
        ("text=ValueError", [failed]),
        ("min_attempts=1&state=succeeded", [tagged, plain]),
        ("created_after=2100-01-01T00:00:00Z", []),
        ("label=delayed", [waiting]),
        ("label=retrying", []),
        ("created_before=2100-01-01T00:00:00%2B00:00&task=broken", [failed]),
        ("older_than=86400", []),
        ("flow=none", []),
        ("worker=none", []),
    ):
        assert ids(site.get(f"/jobs?{query}")) == expected, query


def test_ended_jobs_are_paged_by_when_they_ended(site: Site, app: holdfast.App) -> None:
    (later,) = add(app, delay=60)
    (failed,) = add(app, task="broken")
    run_all(app)
    assert app.jobs.run_now(later)
    run_all(app)
    first = site.get("/jobs?order=ended&limit=1")
    rest = site.get(f"/jobs?order=ended&limit=1&after={first['next']}")
    assert (ids(first), ids(rest)) == ([later], [failed])
    at = quote(first["items"][0]["finished_at"])
    assert ids(site.get(f"/jobs?order=ended&finished_after={at}")) == [later]
    assert ids(site.get(f"/jobs?order=ended&finished_before={at}&state=failed")) == [failed]
    # A cursor of one order is none of the other.
    assert site.refused("GET", f"/jobs?after={first['next']}")[0] == 422
    assert site.refused("GET", f"/jobs?order=ended&after={site.get('/jobs?limit=1')['next']}")[0] == 422
    assert site.refused("GET", "/jobs?order=size")[0] == 400


def test_a_search_without_an_index_goes_on_page_by_page(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_jobs, "LOOKED_AT", 1)
    monkeypatch.setattr("holdfast.storage.ops.jobs.finding._STRETCH", 2)
    (old,) = add(app, tags=["x"])
    add(app, 3)
    first = site.get("/jobs?tag=x")
    assert (ids(first), first["next"] is None) == ([], False)
    assert ids(site.get(f"/jobs?tag=x&after={first['next']}")) == [old]


@pytest.mark.parametrize(
    ("query", "status", "named"),
    [
        ("state=done", 400, "state"),
        ("colour=red", 400, "colour"),
        ("limit=0", 400, "limit"),
        ("limit=9999", 400, "limit"),
        ("after=abc", 422, "cursor"),
        ("created_after=yesterday", 400, "created_after"),
        ("created_after=2026-11-15T09:00:00", 400, "created_after"),
        ("queue=a&queue=b", 400, "queue"),
        ("text=%00", 400, "text"),
    ],
)
def test_what_a_list_cannot_take_is_named(site: Site, query: str, status: int, named: str) -> None:
    answer = site.call("GET", f"/api/v1/jobs?{query}")
    assert (answer.status_code, named in answer.json()["error"]["message"]) == (status, True), answer.text


def test_a_viewer_may_not_search_in_arguments(site: Site, app: holdfast.App) -> None:
    add(app)
    viewer = site.as_role("viewer")
    answer = viewer.call("GET", "/api/v1/jobs?text=1")
    assert (answer.status_code, "payload" in answer.json()["error"]["message"]) == (403, True)
    assert len(ids(viewer.get("/jobs"))) == 1


def test_a_tenants_token_finds_its_own_jobs_alone(site: Site, app: holdfast.App) -> None:
    (own,), (other,) = add(app, tenant="acme"), add(app, tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    assert ids(acme.get("/jobs")) == [own]
    assert ids(acme.get("/jobs?tenant=globex")) == []
    assert acme.get("/jobs/counts")["items"] == [{"queue": "default", "state": "ready", "jobs": 1, "estimated": False}]
    for path in ("", "/result", "/attempts", "/steps", "/explain"):
        assert acme.call("GET", f"/api/v1/jobs/{other}{path}").status_code == 404, path


def test_jobs_are_counted_by_queue_and_state(site: Site, app: holdfast.App) -> None:
    add(app, 2)
    add(app, task="broken")
    add(app, delay=60)
    found = [(one["queue"], one["state"], one["jobs"]) for one in site.get("/jobs/counts")["items"]]
    assert found == [("default", "delayed", 1), ("default", "ready", 2), ("mail", "ready", 1)]


def test_a_result_is_there_when_the_job_has_ended(site: Site, app: holdfast.App) -> None:
    (job_id,) = add(app)
    answer = site.call("GET", f"/api/v1/jobs/{job_id}/result")
    assert (answer.status_code, answer.json()["state"], answer.json()["ended"]) == (202, "ready", False)
    run_all(app)
    answer = site.call("GET", f"/api/v1/jobs/{job_id}/result")
    assert (answer.status_code, answer.json()["result"], answer.json()["ended"]) == (200, 2, True)
    assert site.as_role("viewer").get(f"/jobs/{job_id}/result")["result"] is None


def test_a_failure_is_told_with_its_error_and_its_attempts(site: Site, app: holdfast.App) -> None:
    (job_id,) = add(app, task="broken")
    run_all(app)
    found = site.get(f"/jobs/{job_id}/result?wait=5")
    assert (found["state"], found["error"]["type"], found["error"]["message"]) == ("failed", "ValueError", "oh")
    (attempt,) = site.get(f"/jobs/{job_id}/attempts")["items"]
    assert (attempt["attempt"], attempt["outcome"]) == (1, "exhausted")
    assert attempt["error"]["message"] == "oh"


def test_somebody_waits_for_a_result_until_it_comes(site: Site, app: holdfast.App) -> None:
    (job_id,) = add(app)

    async def wait() -> Any:
        asking = asyncio.create_task(site.acall("GET", f"/api/v1/jobs/{job_id}/result?wait=30"))
        async with app.worker():
            return await asking

    answer = site.run(wait())
    assert (answer.status_code, answer.json()["result"]) == (200, 2)


def test_waiting_ends_after_its_time(site: Site, app: holdfast.App) -> None:
    (job_id,) = add(app)
    answer = site.call("GET", f"/api/v1/jobs/{job_id}/result?wait=0.01")
    assert (answer.status_code, answer.json()["state"]) == (202, "ready")
    assert site.call("GET", f"/api/v1/jobs/{job_id}/result?wait=61").status_code == 400


def test_a_job_that_waits_is_explained(site: Site, app: holdfast.App) -> None:
    (job_id,) = add(app)
    found = site.get(f"/jobs/{job_id}/explain")
    assert (found["id"], found["state"]) == (job_id, "ready")
    assert found["reasons"][0]["code"] == "no_worker"


def test_the_steps_of_a_durable_job_are_shown(site: Site, app: holdfast.App) -> None:
    @app.task
    async def durable(ctx: holdfast.Context) -> int:
        return await ctx.step("load", lambda: 7)

    job_id = app.enqueue(durable.job()).id
    run_all(app)
    (step,) = site.get(f"/jobs/{job_id}/steps")["items"]
    assert (step["key"], step["kind"], step["value"]) == ("step:load#1", "step", 7)
    (step,) = site.as_role("viewer").get(f"/jobs/{job_id}/steps")["items"]
    assert step["value"] is None


@pytest.mark.parametrize("path", ["", "/result", "/result?wait=1", "/attempts", "/steps", "/explain"])
def test_a_job_that_is_not_there_is_not_found(site: Site, path: str) -> None:
    answer = site.call("GET", f"/api/v1/jobs/nothing{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
