"""Quotas over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_a_quota_is_made_changed_and_deleted(site: Site) -> None:
    made = site.put("/quotas/api", {"limit": 2, "window": 3600})
    assert (made["changed"], made["quota"]["limit"], made["quota"]["concurrency"]) == (True, 2, None)
    assert site.put("/quotas/api", {"limit": 2})["changed"] is False
    after = site.put("/quotas/api", {"concurrency": 5})["quota"]
    assert (after["limit"], after["window"], after["concurrency"]) == (2, 3600, 5)
    assert [one["name"] for one in site.get("/quotas")["items"]] == ["api"]
    assert site.get("/quotas/api")["origin"] == "operator"
    assert site.delete("/quotas/api") == {"changed": True}
    assert site.delete("/quotas/api") == {"changed": False}


def test_so_many_are_let_in(site: Site) -> None:
    site.put("/quotas/api", {"limit": 1, "window": 3600, "concurrency": 1})
    assert site.post("/quotas/api/admit", {"key": "a"})["outcome"] == "admitted"
    assert site.post("/quotas/api/admit", {"key": "a"})["outcome"] == "already_admitted"
    refused = site.post("/quotas/api/admit", {"key": "b"})
    assert refused["admitted"] is False
    assert site.post("/quotas/api/release", {"key": "a"}) == {"changed": True}
    assert site.post("/quotas/api/release", {"key": "a"}) == {"changed": False}
    late = site.post("/quotas/api/admit", {"key": "b"})
    assert (late["outcome"], late["retry_after"] > 0) == ("rate_exceeded", True)


def test_what_is_unknown_or_incomplete_is_refused(site: Site) -> None:
    assert site.refused("GET", "/quotas/x")[0] == 404
    assert site.refused("POST", "/quotas/x/admit", {"key": "a"})[0] == 404
    status, message = site.refused("PUT", "/quotas/api", {"limit": 1})
    assert (status, "window" in message) == (422, True)
    status, message = site.refused("POST", "/quotas/x/admit", {})
    assert (status, "key" in message) == (400, True)


def test_a_tenants_quotas_are_its_own_and_a_viewer_sets_none(site: Site, app: holdfast.App) -> None:
    site.put("/quotas/api?tenant=acme", {"concurrency": 1})
    acme = site.as_role("viewer", tenant="acme")
    assert [one["name"] for one in acme.get("/quotas")["items"]] == ["api"]
    assert site.as_role("viewer", tenant="globex").get("/quotas")["items"] == []
    assert acme.refused("PUT", "/quotas/api", {"concurrency": 2})[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
