"""Queues over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_queues_are_listed_with_their_jobs(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    (queue,) = site.get("/queues")["items"]
    assert (queue["name"], queue["state"], sum(queue["jobs"].values())) == ("default", "active", 1)


def test_a_queue_is_shown_with_its_settings_and_how_it_stands(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    app.queues.set("default", timeout=30)
    shown = site.get("/queues/default")
    assert shown["settings"]["timeout"] == 30
    assert shown["stats"]["counts"]["waiting"] == 1


def test_pausing_twice_changes_something_once(site: Site, app: holdfast.App) -> None:
    first = site.post("/queues/mail/pause", {"reason": "the relay is down"})
    assert first == {"changed": True, "name": "mail", "state": "paused"}
    assert site.post("/queues/mail/pause")["changed"] is False
    assert app.queues.get("mail").state == "paused"
    record = app.audit.list(action="queue.pause")[-1]
    assert (record.actor, record.reason) == ("local", "the relay is down")


def test_a_queue_goes_through_its_states(site: Site) -> None:
    seen = [site.post(f"/queues/mail/{verb}")["state"] for verb in ("drain", "disable", "resume")]
    assert seen == ["draining", "disabled", "active"]


def test_settings_that_are_left_out_stay_and_null_is_the_default(site: Site) -> None:
    site.patch("/queues/mail", {"timeout": 30, "cap": 10, "retry": {"kind": "fixed", "initial": 5}})
    after = site.patch("/queues/mail", {"timeout": None})
    assert after["changed"] is True
    assert (after["settings"]["timeout"], after["settings"]["cap"]) == (None, 10)
    assert after["settings"]["retry"]["initial"] == 5
    assert site.patch("/queues/mail", {"cap": 10})["changed"] is False


def test_what_cannot_be_set_is_named(site: Site) -> None:
    status, message = site.refused("PATCH", "/queues/mail", {"colour": 1})
    assert status == 400
    assert message.startswith("the body: Object contains unknown field `colour`; known are retry, timeout, ")
    status, message = site.refused("PATCH", "/queues/mail", {"events": "loud"})
    assert (status, "events" in message) == (400, True)
    assert site.refused("PATCH", "/queues/mail", {})[0] == 422
    status, message = site.refused("PATCH", "/queues/mail", {"retry": {"kind": "fixed", "initial": -1}})
    assert (status, "initial" in message) == (422, True)


def test_jobs_that_nobody_can_run_are_listed(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].options(requires=["gpu"]).job(1))
    (stranded,) = site.get("/stranded")["items"]
    assert (stranded["queue"], stranded["job"]) == ("default", job.id)


def test_a_viewer_may_not_pause_and_the_attempt_is_audited(site: Site, app: holdfast.App) -> None:
    viewer = site.as_role("viewer")
    assert viewer.refused("POST", "/queues/mail/pause")[0] == 403
    assert app.queues.get("mail").state == "active"
    (record,) = app.audit.list(action="access.refused")
    assert (record.actor, record.target) == ("token:viewer-all", "POST /queues/mail/pause")


def test_a_tenant_sees_its_own_jobs_and_pauses_nothing(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1), tenant="acme")
    app.enqueue(app.tasks["double"].job(1), tenant="globex")
    acme = site.as_role("operator", tenant="acme")
    (queue,) = acme.get("/queues")["items"]
    assert sum(queue["jobs"].values()) == 1
    assert acme.get("/queues/default")["settings"] is None
    assert acme.refused("POST", "/queues/default/pause")[0] == 403
    assert acme.refused("GET", "/stranded")[0] == 403
