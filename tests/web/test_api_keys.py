"""Signing keys over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_a_key_is_rotated_and_revoked(site: Site, app: holdfast.App) -> None:
    app.keys.seed("k1", "ab" * 32)
    assert site.post("/keys/rotate", {"kid": "k2", "reason": "yearly"}) == {"kid": "k2"}
    states = {key["kid"]: key["state"] for key in site.get("/keys")["items"]}
    assert states == {"k1": "retired", "k2": "active"}
    assert site.post("/keys/k1/revoke") == {"changed": True, "kid": "k1", "revoked": True}
    assert site.post("/keys/k1/revoke")["changed"] is False
    assert site.refused("POST", "/keys/k2/revoke")[0] == 409
    assert site.refused("POST", "/keys/x/revoke")[0] == 404
    assert app.audit.list(action="key.rotate")[0].reason == "yearly"


def test_no_secret_is_shown(site: Site, app: holdfast.App) -> None:
    app.keys.seed("k1", "ab" * 32)
    assert "ab" * 8 not in site.call("GET", "/api/v1/keys").text


def test_a_key_of_a_name_that_cannot_be_is_refused(site: Site) -> None:
    status, message = site.refused("POST", "/keys/rotate", {"kid": "a b"})
    assert (status, "kid" in message) == (400, True)


def test_only_an_admin_of_the_whole_store_sees_keys(site: Site, app: holdfast.App) -> None:
    assert site.as_role("operator").refused("GET", "/keys")[0] == 403
    assert site.as_role("viewer").refused("POST", "/keys/rotate")[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
    assert site.as_role("admin", tenant="acme").refused("GET", "/keys")[0] == 403
