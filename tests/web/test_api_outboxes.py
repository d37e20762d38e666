"""Outboxes over HTTP."""

from __future__ import annotations

import pytest

import holdfast

from .web_kit import Site


@pytest.fixture
def cloud(app: holdfast.App) -> holdfast.App:
    """An app whose outbox has an entry."""
    app.declare_destination("cloud")
    app.outbox("cloud").put({"n": 1}, kind="sale")
    return app


def test_outboxes_are_listed(site: Site, cloud: holdfast.App) -> None:
    (outbox,) = site.get("/outboxes")["items"]
    assert (outbox["name"], outbox["pending"], outbox["abandoned"]) == ("cloud", 1, 0)


def test_a_retry_says_how_many_became_due(site: Site, cloud: holdfast.App) -> None:
    answer = site.post("/outboxes/cloud/retry", {"reason": "it is back"})
    assert answer["outbox"] == "cloud"
    assert answer["changed"] is (answer["due"] > 0)
    assert site.post("/outboxes/other/retry") == {"changed": False, "outbox": "other", "due": 0}


def test_a_drain_is_dry_unless_it_is_applied(site: Site, cloud: holdfast.App) -> None:
    assert site.post("/outboxes/cloud/drain") == {"outbox": "cloud", "applied": False, "kinds": {}, "left": 0}
    assert site.post("/outboxes/cloud/drain", {"apply": True, "older_than": 60})["applied"] is True
    status, message = site.refused("POST", "/outboxes/cloud/drain", {"apply": True})
    assert (status, "older_than" in message) == (422, True)
    status, message = site.refused("POST", "/outboxes/cloud/drain", {"older_than": -1})
    assert (status, "older_than" in message) == (400, True)


def test_a_viewer_drains_nothing_and_a_tenant_sees_its_own(site: Site, cloud: holdfast.App) -> None:
    assert site.as_role("viewer").refused("POST", "/outboxes/cloud/drain")[0] == 403
    assert len(cloud.audit.list(action="access.refused")) == 1
    assert site.as_role("viewer", tenant="acme").get("/outboxes")["items"] == []


def test_events_are_put_all_or_none_and_once_by_their_id(site: Site, cloud: holdfast.App) -> None:
    events = [{"data": {"n": 2}, "kind": "sale", "key": "a", "id": "e-1"}, {"data": None}]
    answer = site.post("/outboxes/cloud/events", {"events": events})
    assert (len(answer["ids"]), answer["created"]) == (2, 2)
    assert site.post("/outboxes/cloud/events", {"events": events[:1]})["created"] == 0
    assert site.get("/outboxes")["items"][0]["pending"] == 3


def test_events_for_an_outbox_that_the_program_lacks_are_refused(site: Site, cloud: holdfast.App) -> None:
    assert site.refused("POST", "/outboxes/other/events", {"events": [{"data": 1}]})[0] == 404
    assert site.as_role("viewer").refused("POST", "/outboxes/cloud/events", {"events": [{"data": 1}]})[0] == 403


def test_a_token_that_may_only_enqueue_cannot_put_events_into_an_outbox(site: Site, cloud: holdfast.App) -> None:
    """It was given to a program that enqueues jobs; the outbox is trusted by another system."""
    forged = {"events": [{"data": {"order": 7, "paid": True}, "kind": "sale"}]}
    for scopes in (["enqueue"], ["read", "payload", "enqueue", "signal", "work"]):
        attacker = site.with_token(cloud.tokens.create(f"sender-{len(scopes)}", scopes=scopes).secret)
        status, message = attacker.refused("POST", "/outboxes/cloud/events", forged)
        assert (status, "Missing scope: publish" in message) == (403, True)
    assert site.as_role("operator").refused("POST", "/outboxes/cloud/events", forged)[0] == 403
    assert site.get("/outboxes")["items"][0]["pending"] == 1
    assert len(cloud.audit.list(action="access.refused")) == 3


def test_a_token_with_publish_puts_events_and_enqueues_nothing(site: Site, cloud: holdfast.App) -> None:
    till = site.with_token(cloud.tokens.create("till", scopes=["publish"]).secret)
    assert till.post("/outboxes/cloud/events", {"events": [{"data": 1}]})["created"] == 1
    assert till.refused("POST", "/jobs", {"task": "double", "arguments": {"n": 1}})[0] == 403
    assert till.refused("POST", "/outboxes/cloud/retry", {})[0] == 403


def test_a_token_that_is_confined_to_queues_or_tasks_cannot_publish(cloud: holdfast.App) -> None:
    for confined in ({"queues": ["outbox.cloud"]}, {"tasks": ["double"]}):
        with pytest.raises(holdfast.InvalidInput, match="cannot have publish"):
            cloud.tokens.create("confined", scopes=["enqueue", "publish"], **confined)


def test_no_other_way_over_http_puts_events_into_an_outbox(site: Site, cloud: holdfast.App) -> None:
    """A delivered event that is run again with other arguments, or a schedule, would be a forged event too."""
    event = cloud.outbox("cloud").put({"n": 2}, kind="sale")
    assert event is not None
    task = cloud.jobs.get(event.id).task
    operator = site.as_role("operator")
    arguments = {"data": {"paid": True}}
    assert operator.refused("POST", "/jobs", {"task": task, "arguments": arguments})[0] == 422
    schedule = {"name": "forged", "task": task, "arguments": arguments, "every": 60}
    assert operator.refused("POST", "/schedules", schedule)[0] == 422
    again = operator.call("POST", f"/jobs/{event.id}/again", data={"arguments": '{"data": {"paid": true}}'})
    form = operator.call("POST", "/enqueue", data={"task": task, "arguments": '{"data": {"paid": true}}'})
    made = operator.call("POST", "/schedules", data={**schedule, "arguments": '{"data": 1}', "every": "60"})
    assert [answer.status_code for answer in (again, form, made)] == [422, 422, 422]
    assert site.get("/outboxes")["items"][0]["pending"] == 2
    assert cloud.schedules.list() == []
