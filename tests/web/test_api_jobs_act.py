"""Acting on jobs over HTTP, one or many."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.model.jobs import JobState
from tests.patience import SOON

from .web_kit import Site

ACTIONS: list[tuple[str, dict[str, Any]]] = [
    ("cancel", {}),
    ("retry", {}),
    ("run-now", {}),
    ("set-priority", {"priority": 3}),
    ("move", {"queue": "slow"}),
    ("reschedule", {"delay": 60}),
    ("hold", {}),
    ("release", {}),
    ("revoke", {}),
    ("fork", {"from_step": "load"}),
    ("grant", {"worker": "w"}),
    ("withdraw", {}),
]
every_action = pytest.mark.parametrize(("action", "body"), ACTIONS, ids=[name for name, _ in ACTIONS])


def add(app: holdfast.App, task: str = "double", **options: Any) -> str:
    value: Any = 1 if task == "double" else "oh"
    return app.enqueue(app.tasks[task].options(**options).job(value)).id


@contextlib.contextmanager
def running(app: holdfast.App) -> Iterator[str]:
    """A job in the hands of a worker that does not let go of it."""
    started, enough = threading.Event(), threading.Event()

    @app.task
    def stuck() -> None:
        started.set()
        enough.wait(SOON)

    job_id = app.enqueue(stuck.job()).id
    with app.worker():
        assert started.wait(SOON)
        try:
            yield job_id
        finally:
            enough.set()


def act(site: Site, job_id: str, action: str, **body: Any) -> Any:
    return site.post(f"/jobs/{job_id}/{action}", body)


def told(answer: Any) -> tuple[bool, str, str]:
    return answer["changed"], answer["outcome"], answer["job"]["state"]


def test_a_second_cancel_says_that_nothing_was_changed(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    assert told(act(site, job_id, "cancel", reason="no need")) == (True, "cancelled", "cancelled")
    assert told(act(site, job_id, "cancel")) == (False, "finished", "cancelled")
    (record,) = app.audit.list(target_kind="job", target=job_id)
    assert (record.actor, record.action, record.reason) == ("local", "job.cancel", "no need")


def test_a_running_job_is_asked_to_stop_once(site: Site, app: holdfast.App) -> None:
    with running(app) as job_id:
        assert told(act(site, job_id, "cancel", owner="another")) == (False, "different_owner", "running")
        assert told(act(site, job_id, "cancel")) == (True, "cancel_requested", "running")
        assert told(act(site, job_id, "cancel")) == (False, "already", "running")
        assert told(act(site, job_id, "cancel", force=True)) == (True, "cancelled", "cancelled")


def test_a_finished_job_runs_again(site: Site, app: holdfast.App) -> None:
    job_id = add(app, "broken")
    app.drain()
    assert told(act(site, job_id, "retry", fresh=True)) == (True, "retried", "ready")
    answer = site.call("POST", f"/api/v1/jobs/{job_id}/retry", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "illegal_move")


def test_a_twin_keeps_a_job_from_running_again(site: Site, app: holdfast.App) -> None:
    job_id = add(app, dedupe_key="k")
    app.drain()
    add(app, dedupe_key="k")
    assert told(act(site, job_id, "retry")) == (False, "key_taken", "succeeded")


def test_a_delayed_job_is_made_due(site: Site, app: holdfast.App) -> None:
    job_id = add(app, delay=60)
    assert told(act(site, job_id, "run-now")) == (True, "due", "ready")
    assert told(act(site, job_id, "run-now")) == (False, "already_due", "ready")


def test_a_waiting_job_is_rescheduled(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    at = "2031-01-01T00:00:00Z"
    answer = act(site, job_id, "reschedule", at=at)
    assert (told(answer), answer["job"]["not_before"]) == (
        (True, "rescheduled", "ready"),
        "2031-01-01T00:00:00Z",
    )
    assert told(act(site, job_id, "reschedule", at=at)) == (False, "already", "ready")
    assert told(act(site, job_id, "reschedule", delay=0))[:2] == (True, "rescheduled")
    both = site.call("POST", f"/api/v1/jobs/{job_id}/reschedule", json={"at": at, "delay": 1})
    neither = site.call("POST", f"/api/v1/jobs/{job_id}/reschedule", json={})
    assert (both.status_code, neither.status_code) == (422, 422)
    many = site.post("/jobs/actions", {"action": "reschedule", "ids": [job_id], "delay": 60})
    assert many["counts"] == {"rescheduled": 1}
    act(site, job_id, "cancel")
    assert site.call("POST", f"/api/v1/jobs/{job_id}/reschedule", json={"delay": 1}).status_code == 409


def test_a_priority_is_changed(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    answer = act(site, job_id, "set-priority", priority=3)
    assert (answer["changed"], answer["job"]["priority"]) == (True, 3)
    assert act(site, job_id, "set-priority", priority=3)["changed"] is False


def test_a_job_is_moved_to_another_queue(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    answer = act(site, job_id, "move", queue="slow")
    assert (answer["changed"], answer["job"]["queue"]) == (True, "slow")
    assert told(act(site, job_id, "move", queue="slow")) == (False, "already", "ready")
    act(site, job_id, "cancel")
    assert site.call("POST", f"/api/v1/jobs/{job_id}/move", json={"queue": "default"}).status_code == 409


def test_a_job_is_held_and_released(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    assert told(act(site, job_id, "hold")) == (True, "held", "blocked")
    assert told(act(site, job_id, "hold")) == (False, "already", "blocked")
    assert told(act(site, job_id, "release")) == (True, "released", "ready")
    assert told(act(site, job_id, "release")) == (False, "already", "ready")


def test_a_lease_is_revoked(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    assert told(act(site, job_id, "revoke")) == (False, "no_active_lease", "ready")
    site.call("DELETE", f"/api/v1/jobs/{job_id}")
    with running(app) as job_id:
        assert told(act(site, job_id, "revoke", owner="another")) == (False, "different_owner", "running")
        assert told(act(site, job_id, "revoke"))[:2] == (True, "revoked")


def test_a_job_is_granted_to_one_worker(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    assert told(act(site, job_id, "grant", worker="gpu-1", expires=60))[:2] == (True, "granted")
    assert [grant.worker for grant in app.jobs.grants()] == ["gpu-1"]
    assert told(act(site, job_id, "withdraw"))[:2] == (True, "withdrawn")
    assert told(act(site, job_id, "withdraw"))[:2] == (False, "not_granted")


def test_a_durable_job_is_forked_from_a_step(site: Site, app: holdfast.App) -> None:
    @app.task
    async def durable(ctx: holdfast.Context) -> int:
        first = await ctx.step("load", lambda: 7)
        return first + await ctx.step("add", lambda: 1)

    job_id = app.enqueue(durable.job()).id
    app.drain()
    answer = site.call("POST", f"/api/v1/jobs/{job_id}/fork", json={"from_step": "add"})
    assert (answer.status_code, answer.json()["forked_from"]) == (201, job_id)
    assert [step["key"] for step in site.get(f"/jobs/{answer.json()['id']}/steps")["items"]] == ["step:load#1"]
    assert site.call("POST", f"/api/v1/jobs/{job_id}/fork", json={"from_step": "none"}).status_code in (404, 422)


def test_a_job_is_deleted(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    answer = site.call("DELETE", f"/api/v1/jobs/{job_id}?reason=test")
    assert answer.json() == {"changed": True, "outcome": "deleted", "job": None}
    assert site.call("DELETE", f"/api/v1/jobs/{job_id}").status_code == 404
    (record,) = app.audit.list(target_kind="job", target=job_id)
    assert (record.action, record.reason) == ("job.delete", "test")


@every_action
def test_acting_on_what_is_not_there_is_not_found(site: Site, action: str, body: dict[str, Any]) -> None:
    assert site.call("POST", f"/api/v1/jobs/none/{action}", json=body).status_code == 404


@every_action
def test_a_viewer_may_not_act_and_another_tenant_finds_nothing(
    site: Site, app: holdfast.App, action: str, body: dict[str, Any]
) -> None:
    job_id = add(app, tenant="acme")
    path = f"/api/v1/jobs/{job_id}/{action}"
    assert site.as_role("viewer").call("POST", path, json=body).status_code == 403
    assert site.as_role("operator", tenant="globex").call("POST", path, json=body).status_code == 404
    (record,) = app.audit.list(action="access.refused")
    assert (record.actor, record.target) == ("token:viewer-all", f"POST /jobs/{job_id}/{action}")
    assert app.jobs.get(job_id).state is JobState.READY


@every_action
def test_what_an_action_does_not_know_is_named(site: Site, action: str, body: dict[str, Any]) -> None:
    answer = site.call("POST", f"/api/v1/jobs/x/{action}", json={**body, "colour": 1})
    assert (answer.status_code, "colour" in answer.json()["error"]["message"]) == (400, True)


# -- many


def test_a_dry_run_counts_exactly_what_would_be_done(site: Site, app: holdfast.App) -> None:
    jobs = [add(app, "broken") for _ in range(3)]
    app.drain()
    add(app)
    body = {"action": "retry", "filter": {"state": ["failed"], "queue": "mail"}, "dry_run": True}
    expected = {"action": "retry", "dry_run": True, "chosen": 3, "changed": 3, "counts": {"retried": 3}, "results": []}
    assert site.post("/jobs/actions", body) == expected
    assert {app.jobs.get(job_id).state for job_id in jobs} == {JobState.FAILED}
    assert site.post("/jobs/actions", {**body, "dry_run": False}) == {**expected, "dry_run": False}
    assert {app.jobs.get(job_id).state for job_id in jobs} == {JobState.READY}
    assert site.post("/jobs/actions", {**body, "dry_run": False})["chosen"] == 0


def test_named_jobs_each_have_their_outcome(site: Site, app: holdfast.App) -> None:
    job_id = add(app)
    found = site.post("/jobs/actions", {"action": "hold", "ids": [job_id, "none"]})
    assert found["results"] == [{"id": job_id, "outcome": "held"}, {"id": "none", "outcome": "missing"}]
    assert site.post("/jobs/actions", {"action": "hold", "ids": [job_id]})["changed"] == 0


def test_many_jobs_are_moved_and_reordered_by_tag_and_by_state(site: Site, app: holdfast.App) -> None:
    job_id, other = add(app, tags=["blue"]), add(app)
    site.post("/jobs/actions", {"action": "move", "filter": {"tag": "blue"}, "queue": "slow"})
    site.post("/jobs/actions", {"action": "set_priority", "filter": {"state": ["ready", "blocked"]}, "priority": 4})
    assert [app.jobs.get(one).queue for one in (job_id, other)] == ["slow", "default"]
    assert [app.jobs.get(one).priority for one in (job_id, other)] == [4, 4]


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"action": "explode", "all": True}, 400, "action"),
        ({"action": "cancel"}, 422, "filter"),
        ({"action": "cancel", "filter": {}}, 422, "filter"),
        ({"action": "cancel", "filter": {"colour": 1}}, 400, "colour"),
        ({"action": "cancel", "filter": {"state": ["done"]}}, 400, "state"),
        ({"action": "cancel", "all": True, "ids": ["x"]}, 422, "ids"),
        ({"action": "move", "all": True}, 422, "queue"),
        ({"action": "cancel", "all": True, "priority": 1}, 422, "priority"),
    ],
)
def test_what_is_meant_must_be_clear(site: Site, body: Any, status: int, named: str) -> None:
    answer = site.call("POST", "/api/v1/jobs/actions", json=body)
    assert (answer.status_code, named in answer.json()["error"]["message"]) == (status, True), answer.text


def test_a_tenants_token_acts_on_its_own_jobs_alone(site: Site, app: holdfast.App) -> None:
    own, other = add(app, tenant="acme"), add(app, tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    assert acme.post("/jobs/actions", {"action": "cancel", "all": True})["chosen"] == 1
    assert acme.post("/jobs/actions", {"action": "cancel", "ids": [other]})["counts"] == {"missing": 1}
    assert [app.jobs.get(one).state for one in (own, other)] == [JobState.CANCELLED, JobState.READY]
