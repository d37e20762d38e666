"""The lease API over HTTP: what a worker in another language sees."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import holdfast

from .web_kit import Site


@pytest.fixture
def worker(site: Site, app: holdfast.App) -> Site:
    """Somebody who may work, and nothing else."""
    token = app.tokens.create("elsewhere", scopes=["work"]).secret
    return site.with_token(token)


def registered(worker: Site, **more: Any) -> str:
    body = {"name": "elsewhere", "queues": ["default"], "tasks": ["double"], "concurrency": 5, **more}
    return str(worker.post("/work/register", body)["worker"])


def claimed(worker: Site, app: holdfast.App, n: int = 21, **more: Any) -> dict[str, Any]:
    """A job in the hands of a worker."""
    app.enqueue(app.tasks["double"].job(n))
    me = registered(worker, **more)
    (job,) = worker.post("/work/claim", {"worker": me})["jobs"]
    return {**job, "worker": me}


def refused(worker: Site, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = worker.call("POST", f"/api/v1/work{path}", json=body)
    return answer.status_code, answer.json()["error"]["code"]


def test_a_job_is_claimed_and_finished(site: Site, app: holdfast.App, worker: Site) -> None:
    job = claimed(worker, app)
    assert (job["task"], job["arguments"], job["attempt"]) == ("double", {"n": 21}, 1)
    end = {"handle": job["handle"], "end": {"outcome": "done", "result": 42}}
    assert worker.post("/work/finish", end) == {
        "job_id": job["id"],
        "state": "succeeded",
        "again": False,
        "delay": None,
    }
    assert worker.post("/work/finish", end)["again"] is True
    assert site.get(f"/jobs/{job['id']}")["result"] == 42


def test_a_failure_is_tried_again_or_not_as_its_worker_says(site: Site, app: holdfast.App, worker: Site) -> None:
    job = claimed(worker, app)
    error = {"message": "no luck", "type": "Weather"}
    retry = {"handle": job["handle"], "end": {"outcome": "retry", "error": error, "delay": 0}}
    assert worker.post("/work/finish", retry)["state"] == "ready"
    (again,) = worker.post("/work/claim", {"worker": job["worker"], "wait": 5})["jobs"]
    assert again["attempt"] == 2
    fail = {"handle": again["handle"], "end": {"outcome": "fail", "error": error}}
    assert worker.post("/work/finish", fail)["state"] == "failed"
    assert site.get(f"/jobs/{job['id']}")["error"]["type"] == "Weather"


def test_a_claim_waits_for_a_job_and_gives_nothing_when_none_comes(app: holdfast.App, worker: Site) -> None:
    me = registered(worker)
    assert worker.post("/work/claim", {"worker": me, "wait": 0.05}) == {"jobs": []}
    assert worker.call("POST", "/api/v1/work/claim", json={"worker": me, "wait": 31}).status_code == 400


def test_a_claim_that_is_repeated_gives_the_same_jobs(app: holdfast.App, worker: Site) -> None:
    app.enqueue(app.tasks["double"].job(1))
    body = {"worker": registered(worker), "claim_id": "c1"}
    assert worker.post("/work/claim", body)["jobs"] == worker.post("/work/claim", body)["jobs"]


def test_a_beat_tells_what_is_owned_lost_and_to_be_cancelled(app: holdfast.App, worker: Site) -> None:
    job = claimed(worker, app)
    app.jobs.cancel(job["id"])
    told = worker.post("/work/beat", {"worker": job["worker"], "handles": [job["handle"]]})
    assert (told["cancelled"], told["lost"]) == ([job["handle"]], [])
    worker.post("/work/finish", {"handle": job["handle"], "end": {"outcome": "cancel"}})
    assert worker.post("/work/beat", {"worker": job["worker"], "handles": [job["handle"]]})["lost"] == [job["handle"]]


def test_a_worker_that_is_not_known_must_register(worker: Site) -> None:
    assert refused(worker, "/beat", {"worker": "nobody"}) == (409, "lease_lost")


def test_a_worker_leaves_and_its_jobs_are_free(site: Site, app: holdfast.App, worker: Site) -> None:
    job = claimed(worker, app)
    assert worker.post("/work/deregister", {"worker": job["worker"]}) == {"worker": job["worker"], "released": 1}
    assert site.get(f"/jobs/{job['id']}")["state"] == "ready"
    assert refused(worker, "/emit", {"handle": job["handle"], "frames": [{"data": "late"}]}) == (409, "lease_lost")
    late = worker.post("/work/finish", {"handle": job["handle"], "end": {"outcome": "done"}})
    assert (late["state"], late["again"]) == ("ready", True)


def test_a_run_says_stores_and_records(site: Site, app: holdfast.App, worker: Site) -> None:
    job = claimed(worker, app)
    run = {"handle": job["handle"]}
    data = base64.b64encode(b"\x00\x01").decode()
    frames = {"frames": [{"data": "hello"}, {"base64": data, "kind": "raw"}, {"data": {"n": None}}], "batch": 1}
    end = worker.post("/work/emit", run | frames)
    assert worker.post("/work/emit", run | frames) == end
    worker.post("/work/progress", run | {"percent": 30, "message": "on it", "batch": 2})
    assert worker.post("/work/summary", run | {"patch": {"a": 1}})["version"] == 1
    worker.post("/work/artifact", run | {"name": "out", "base64": data, "content_type": "application/x"})
    assert refused(worker, "/artifact", run | {"name": "out", "text": "other"}) == (409, "duplicate_artifact")
    worker.post("/work/steps/record", run | {"name": "load", "value": [1, 2]})
    assert worker.post("/work/steps/record", run | {"name": "load", "value": "later"})["value"] == [1, 2]
    assert "step:load#1" in [step["key"] for step in worker.post("/work/steps", run)["items"]]
    said = site.get(f"/jobs/{job['id']}/stream")["items"]
    assert [frame.get("data", frame.get("base64")) for frame in said] == ["hello", data, {"n": None}]
    assert site.get(f"/jobs/{job['id']}/progress")["percent"] == 30
    assert site.call("GET", f"/api/v1/jobs/{job['id']}/artifacts/out/content").content == b"\x00\x01"


def test_a_spend_is_charged_once_for_each_key(app: holdfast.App, worker: Site) -> None:
    app.budgets.set("llm", {"tokens": 100})
    body = {"handle": claimed(worker, app)["handle"], "budget": "llm", "amounts": {"tokens": 7}, "key": "call-1"}
    assert [worker.post("/work/spend", body)["again"] for _ in range(2)] == [False, True]
    assert refused(worker, "/spend", body | {"amounts": {"tokens": 8}}) == (409, "spend_conflict")


def test_a_run_waits_for_a_signal_and_is_claimed_again_with_the_answer(
    site: Site, app: holdfast.App, worker: Site
) -> None:
    job = claimed(worker, app)
    asked = {"name": "approval", "waitpoint": True, "schema": {"type": "boolean"}, "timeout": 3600}
    waited = worker.post("/work/suspend", {"handle": job["handle"], **asked})
    assert waited["state"] == "suspended"
    assert worker.post("/work/suspend", {"handle": job["handle"], **asked}) == {**waited, "again": True}
    site.post("/signals", {"token": waited["token"], "payload": True})
    (again,) = worker.post("/work/claim", {"worker": job["worker"], "wait": 5})["jobs"]
    answer = worker.post("/work/suspend", {"handle": again["handle"], **asked})
    assert (answer["state"], answer["how"], answer["value"]) == ("running", "signals", True)


def test_a_wait_over_http_is_for_several_names_and_waitpoints(app: holdfast.App, site: Site, worker: Site) -> None:
    job = claimed(worker, app)
    place = worker.post("/work/waitpoint", {"handle": job["handle"], "name": "review"})
    asked = {"names": ["legal", "finance"], "waitpoints": [place["id"]], "needed": "all"}
    assert worker.post("/work/suspend", {"handle": job["handle"], **asked})["state"] == "suspended"
    app.signal(job["id"], "finance", 2)
    site.post("/signals", {"token": place["token"], "payload": 3})
    app.signal(job["id"], "legal", 1)
    (again,) = worker.post("/work/claim", {"worker": job["worker"], "wait": 5})["jobs"]
    assert worker.post("/work/suspend", {"handle": again["handle"], **asked})["value"] == [1, 2, 3]


@pytest.mark.parametrize("damage", ["", "nonsense", "x{}", "{}x", "hf9{}"])
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/finish", {"end": {"outcome": "done"}}),
        ("/emit", {"frames": []}),
        ("/progress", {}),
        ("/summary", {"patch": {}}),
        ("/steps", {}),
        ("/suspend", {"name": "x"}),
        ("/waitpoint", {"name": "x"}),
        ("/artifact", {"name": "x", "text": "y"}),
    ],
)
def test_a_handle_that_is_damaged_is_refused_by_everything(worker: Site, damage: str, path: str, more: Any) -> None:
    handle = damage.format("hf1.sqlite.0123456789abcdef0123456789abcdef.W10.aaaaaaaa")
    expected = (400, "invalid") if not handle else (422, "bad_handle")
    assert refused(worker, path, {"handle": handle, **more}) == expected


def test_a_handle_of_another_store_is_refused(app: holdfast.App, worker: Site, tmp_path: Any) -> None:
    other = holdfast.App(str(tmp_path / "other.db"), durable=False)
    try:
        other.declare("double").enqueue(n=1)
        me = other.remote.register("elsewhere", ["default"], ["double"])
        (job,) = other.remote.claim(me.worker)
        answer = worker.call(
            "POST", "/api/v1/work/finish", json={"handle": job.handle, "end": {"outcome": "done"}}
        )  # fmt: skip
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_handle")
        assert "another store" in answer.json()["error"]["message"]
    finally:
        other.close()


def test_work_needs_its_own_scope_and_the_whole_store(site: Site, app: holdfast.App) -> None:
    body = {"name": "x", "queues": ["default"], "tasks": ["double"]}
    assert refused(site.as_role("operator"), "/register", body) == (403, "forbidden")
    mine = app.tokens.create("theirs", scopes=["work"], tenant="acme").secret
    assert refused(site.with_token(mine), "/register", body) == (403, "beyond_scope")
