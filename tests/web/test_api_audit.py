"""The audit over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_records_are_listed_newest_first_and_go_on_where_they_ended(site: Site, app: holdfast.App) -> None:
    for queue in ("a", "b", "c"):
        app.queues.pause(queue, actor="ann", reason="because")
    first = site.get("/audit?limit=2")
    rest = site.get(f"/audit?limit=2&after={first['next']}")
    assert [one["target"] for one in first["items"] + rest["items"]] == ["c", "b", "a"]
    assert rest["next"] is None
    newest = first["items"][0]
    assert (newest["actor"], newest["action"], newest["reason"]) == ("ann", "queue.pause", "because")
    assert newest["after"] == {"state": "paused"}


def test_records_are_filtered(site: Site, app: holdfast.App) -> None:
    app.queues.pause("a", actor="ann")
    app.queues.resume("a", actor="bob")
    assert [one["action"] for one in site.get("/audit?actor=bob")["items"]] == ["queue.resume"]
    assert [one["actor"] for one in site.get("/audit?action=queue.pause")["items"]] == ["ann"]
    assert len(site.get("/audit?target_kind=queue&target=a")["items"]) == 2
    assert site.get("/audit?since=2999-01-01T00:00:00Z")["items"] == []
    assert site.get("/audit?until=2000-01-01T00:00:00Z")["items"] == []


def test_filters_and_cursors_that_there_are_not_are_named(site: Site) -> None:
    assert site.refused("GET", "/audit?target=a")[0] == 422
    assert site.refused("GET", "/audit?after=bogus")[0] == 422
    status, message = site.refused("GET", "/audit?colour=red")
    assert (status, "colour" in message) == (400, True)
    assert site.refused("GET", "/audit?since=yesterday")[0] == 400


def test_a_viewer_does_not_see_what_was_changed(site: Site, app: holdfast.App) -> None:
    app.schedules.create("nightly", app.tasks["double"].job(42), cron="0 3 * * *")
    (record,) = site.as_role("viewer").get("/audit?action=schedule.create")["items"]
    assert (record["target"], record["before"], record["after"]) == ("nightly", None, None)


def test_a_tenant_sees_what_was_done_to_its_own(site: Site, app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].job(1), tenant="acme")
    app.jobs.cancel(job.id, actor="ann")
    app.queues.pause("default", actor="ann")
    acme = site.as_role("viewer", tenant="acme")
    assert [one["target"] for one in acme.get("/audit?target_kind=job")["items"]] == [job.id]
    assert acme.get("/audit?target_kind=queue")["items"] == []
    assert site.as_role("viewer", tenant="globex").get("/audit?target_kind=job")["items"] == []
