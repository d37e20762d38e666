"""Streams over HTTP: by the page, and as they are said."""

from __future__ import annotations

import base64
import threading

import httpx2
import pytest

import holdfast
from tests.patience import SOON

from .sse_kit import following
from .web_kit import Site, served


@pytest.fixture(autouse=True)
def go_on(app: holdfast.App) -> threading.Event:
    """Lets a job of task `talk` say the second half of what it has to say."""
    may_go = threading.Event()

    @app.task
    def talk(ctx: holdfast.SyncContext, words: int) -> None:
        for n in range(words):
            ctx.emit(f"word {n}")
        ctx.progress(50, "half", stage="middle")
        ctx.summarize({"words": words})
        ctx.flush()
        assert may_go.wait(SOON)
        ctx.emit(b"\x00\xff", kind="bytes")
        ctx.emit({"n": 1}, kind="json", best_effort=True)

    return may_go


def ended(app: holdfast.App, go_on: threading.Event, words: int = 3, tenant: str | None = None) -> str:
    job = app.enqueue(app.tasks["talk"].job(words), tenant=tenant)
    go_on.set()
    app.drain()
    return job.id


def test_frames_come_by_the_page(site: Site, app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on)
    first = site.get(f"/jobs/{job}/stream?limit=3")
    rest = site.get(f"/jobs/{job}/stream?after={first['next']}")
    frames = [*first["items"], *rest["items"]]
    assert [frame.get("data") for frame in frames] == ["word 0", "word 1", "word 2", None, {"n": 1}]
    assert base64.b64decode(frames[3]["base64"]) == b"\x00\xff"
    assert (first["closed"], rest["closed"]) == (False, True)


def test_best_effort_frames_can_be_left_out(site: Site, app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on)
    kinds = [frame["kind"] for frame in site.get(f"/jobs/{job}/stream?best_effort=false")["items"]]
    assert kinds == ["output", "output", "output", "bytes"]


def test_progress_and_summary_are_told(site: Site, app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on)
    progress = site.get(f"/jobs/{job}/progress")
    assert (progress["percent"], progress["message"], progress["stage"]) == (50, "half", "middle")
    assert site.get(f"/jobs/{job}/summary")["document"] == {"words": 3}


def test_a_cursor_that_was_never_given_out_is_refused(site: Site, app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on)
    assert site.call("GET", f"/api/v1/jobs/{job}/stream?after=x").status_code == 400
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = site.call("GET", f"/api/v1/jobs/{job}/stream?after=99.0", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_cursor")
        assert site.call("GET", "/api/v1/jobs/nothing/stream", headers=headers).status_code == 404


def test_frames_are_for_those_who_may_see_payloads(site: Site, app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on, tenant="acme")
    viewer, foreign = site.as_role("viewer"), site.as_role("operator", tenant="globex")
    assert viewer.call("GET", f"/api/v1/jobs/{job}/stream").status_code == 403
    assert viewer.call("GET", f"/api/v1/jobs/{job}/summary").status_code == 403
    assert foreign.call("GET", f"/api/v1/jobs/{job}/stream").status_code == 404
    assert foreign.call("GET", f"/api/v1/jobs/{job}/progress").status_code == 404


def test_a_running_job_is_followed_to_its_end(app: holdfast.App, go_on: threading.Event) -> None:
    job = app.enqueue(app.tasks["talk"].job(2))
    path = f"/api/v1/jobs/{job.id}/stream"
    with served(app, auth="off") as address, app.worker(), following(address, path) as events:
        assert [next(events).data["data"] for _ in range(2)] == ["word 0", "word 1"]
        go_on.set()
        rest = list(events)
    assert [event.event for event in rest] == ["frame", "frame", "end"]
    assert rest[-1].data["state"] == "succeeded"


def test_a_tenant_follows_its_own_jobs(app: holdfast.App, go_on: threading.Event) -> None:
    job, token = ended(app, go_on, tenant="acme"), app.tokens.create("a", role="operator", tenant="acme").secret
    with served(app) as address, following(address, f"/api/v1/jobs/{job}/stream", token=token) as events:
        assert [event.event for event in events] == ["frame"] * 5 + ["end"]


def test_who_was_cut_off_goes_on_behind_the_last_frame_he_saw(app: holdfast.App, go_on: threading.Event) -> None:
    job = ended(app, go_on)
    path = f"/api/v1/jobs/{job}/stream"
    with served(app, auth="off") as address:
        with following(address, path) as events:
            seen = [next(events), next(events)]
        with following(address, path, last_event_id=str(seen[-1].id)) as events:
            rest = list(events)
        assert [event.data.get("data") for event in rest[:-1]] == ["word 2", None, {"n": 1}]
        headers = {"accept": "text/event-stream", "last-event-id": str(rest[-1].id)}
        assert httpx2.get(address + path, headers=headers).status_code == 204
