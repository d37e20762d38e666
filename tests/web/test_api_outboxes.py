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
    status, message = site.refused("POST", "/outboxes/cloud/drain", {"older_than": -1})
    assert (status, "older_than" in message) == (400, True)


def test_a_viewer_drains_nothing_and_a_tenant_sees_its_own(site: Site, cloud: holdfast.App) -> None:
    assert site.as_role("viewer").refused("POST", "/outboxes/cloud/drain")[0] == 403
    assert len(cloud.audit.list(action="access.refused")) == 1
    assert site.as_role("viewer", tenant="acme").get("/outboxes")["items"] == []
