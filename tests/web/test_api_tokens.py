"""Tokens over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_a_token_is_made_with_its_secret_and_shown_without(site: Site, app: holdfast.App) -> None:
    made = site.post("/tokens", {"name": "ci", "role": "viewer", "expires": 3600})
    assert made["secret"].startswith("hf_")
    assert (made["role"], made["scopes"]) == ("viewer", ["read"])
    assert app.tokens.identify(made["secret"]) is not None
    shown = site.get("/tokens/ci")
    assert (shown["id"], shown["state"]) == (made["id"], "active")
    assert "secret" not in shown
    assert made["secret"] not in site.call("GET", "/api/v1/tokens").text


def test_a_token_is_revoked_once(site: Site, app: holdfast.App) -> None:
    made = site.post("/tokens", {"name": "ci", "scopes": ["read", "enqueue"], "tenant": "acme"})
    assert site.post("/tokens/ci/revoke", {"reason": "leaked"}) == {"changed": True}
    assert site.post(f"/tokens/{made['id']}/revoke") == {"changed": False}
    assert app.tokens.identify(made["secret"]) is None
    assert app.audit.list(action="token.revoke")[0].reason == "leaked"


def test_what_makes_no_token_is_named(site: Site) -> None:
    assert site.refused("POST", "/tokens", {"name": "ci"})[0] == 422
    assert site.refused("POST", "/tokens", {"name": "ci", "role": "viewer", "scopes": ["read"]})[0] == 422
    status, message = site.refused("POST", "/tokens", {"name": "ci", "role": "king"})
    assert (status, "role" in message) == (400, True)
    site.post("/tokens", {"name": "ci", "role": "viewer"})
    assert site.refused("POST", "/tokens", {"name": "ci", "role": "viewer"})[0] == 409
    assert site.refused("GET", "/tokens/x")[0] == 404
    assert site.refused("POST", "/tokens/x/revoke")[0] == 404


def test_a_list_goes_on_where_it_ended(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.post("/tokens", {"name": name, "role": "viewer"})
    first = site.get("/tokens?limit=2")
    rest = site.get(f"/tokens?limit=2&after={first['next']}")
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a", "b", "c"]


def test_only_an_admin_of_the_whole_store_sees_tokens(site: Site, app: holdfast.App) -> None:
    operator = site.as_role("operator")
    assert operator.refused("GET", "/tokens")[0] == 403
    assert operator.refused("POST", "/tokens", {"name": "x", "role": "admin"})[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
    assert site.as_role("admin", tenant="acme").refused("POST", "/tokens", {"name": "x", "role": "admin"})[0] == 403
