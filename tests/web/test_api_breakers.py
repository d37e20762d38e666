"""Circuit breakers over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_a_breaker_is_made_shown_and_removed(site: Site) -> None:
    made = site.put("/breakers/stripe", {"failures": 3, "open_for": 60})
    assert (made["scope"], made["state"], made["threshold"], made["open_for"]) == ("stripe", "closed", 3, 60)
    assert [one["scope"] for one in site.get("/breakers")["items"]] == ["stripe"]
    assert site.get("/breakers/stripe")["origin"] == "operator"
    assert site.delete("/breakers/stripe") == {"changed": True}
    assert site.delete("/breakers/stripe") == {"changed": False}


def test_a_breaker_is_opened_and_closed_by_hand(site: Site, app: holdfast.App) -> None:
    site.put("/breakers/stripe", {})
    tripped = site.post("/breakers/stripe/trip", {"open_for": 600, "reason": "they said so"})
    assert (tripped["changed"], tripped["breaker"]["state"]) == (True, "open")
    assert site.post("/breakers/stripe/trip")["changed"] is False
    assert site.post("/breakers/stripe/reset")["changed"] is True
    assert site.post("/breakers/stripe/reset")["changed"] is False
    assert app.audit.list(action="breaker.trip")[-1].reason == "they said so"


def test_an_unknown_breaker_is_not_found(site: Site) -> None:
    for method, path in (("GET", "/breakers/x"), ("POST", "/breakers/x/trip"), ("POST", "/breakers/x/reset")):
        assert site.refused(method, path)[0] == 404


def test_what_does_not_fit_is_named(site: Site) -> None:
    status, message = site.refused("PUT", "/breakers/stripe", {"open_for": 0})
    assert (status, "open_for" in message) == (400, True)


def test_a_viewer_and_a_tenant_may_not_trip(site: Site, app: holdfast.App) -> None:
    site.put("/breakers/stripe", {})
    assert site.as_role("viewer").refused("POST", "/breakers/stripe/trip")[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
    assert site.as_role("operator", tenant="acme").refused("GET", "/breakers")[0] == 403
