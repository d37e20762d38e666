"""Pages of other sites call the API by a script only where a setting names their origin, and never by a cookie."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import ConfigError
from holdfast.web import WebSettings
from holdfast.web.serving import settings_for

from .web_kit import Site

SHOP = "https://shop.example.com"
THERE = {"origin": SHOP, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


@pytest.fixture
def shared(site: Site) -> Site:
    """A site that lets the shop's pages call."""
    return site.with_settings(origins=(SHOP,), auth="required")


def test_without_the_setting_no_origin_is_told_anything(site: Site) -> None:
    answer = site.as_nobody().call("OPTIONS", "/api/v1/jobs", headers={**THERE, **PREFLIGHT})
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_page_of_a_named_origin_may_call_with_a_token(shared: Site, app: holdfast.App) -> None:
    asked = shared.call("OPTIONS", "/api/v1/jobs", headers={**THERE, **PREFLIGHT})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, SHOP)
    assert "authorization" in asked.headers["access-control-allow-headers"]
    secret = app.tokens.create("page", scopes=["enqueue"]).secret
    body, headers = {"task": "double", "arguments": [1]}, {**THERE, "authorization": f"Bearer {secret}"}
    made = shared.call("POST", "/api/v1/jobs", json=body, headers=headers)
    assert (made.status_code, made.headers["access-control-allow-origin"]) == (201, SHOP)
    assert "origin" in made.headers["vary"].lower()
    assert "access-control-allow-credentials" not in made.headers
    result = shared.call("GET", f"/api/v1/results/{made.json()['result_key']}", headers=THERE)
    assert (result.status_code, result.headers["access-control-allow-origin"]) == (202, SHOP)


def test_it_can_read_a_refusal_too(shared: Site) -> None:
    answer = shared.call("GET", "/api/v1/jobs", headers=THERE)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, SHOP)


@pytest.mark.parametrize("origin", ["https://evil.example.com", "http://shop.example.com", f"{SHOP}.evil.com", "null"])
def test_any_other_origin_is_refused_as_before(shared: Site, origin: str) -> None:
    for method, path in (("OPTIONS", "/api/v1/jobs"), ("GET", "/api/v1/health/live"), ("GET", "/api/v1/results/x")):
        answer = shared.call(method, path, headers={**THERE, **PREFLIGHT, "origin": origin})
        assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False)


def test_a_session_is_of_no_use_to_a_named_origin(shared: Site, app: holdfast.App) -> None:
    secret = app.tokens.create("ann", role="admin").secret
    logged_in = app.tokens.login(secret)
    assert logged_in is not None
    name = "__Host-holdfast"
    headers = {**THERE, "cookie": f"{name}={logged_in[0]}"}
    for method, path in (("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs")):
        assert shared.call(method, path, headers=headers).status_code == 403


def test_nor_is_being_on_this_machine(site: Site) -> None:
    local = site.with_settings(origins=(SHOP,), auth="off")
    assert local.call("POST", "/api/v1/jobs", json={"task": "double"}, headers=THERE).status_code == 403


def test_pages_are_not_shared(shared: Site) -> None:
    assert "access-control-allow-origin" not in shared.call("GET", "/login", headers=THERE).headers


@pytest.mark.parametrize(
    "origin", ["*", "null", "shop.example.com", f"{SHOP}/", "https://*.example.com", "https://a b"]
)
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(ConfigError, match="origin"):
        WebSettings(origins=(origin,))


def test_the_command_line_hands_them_on() -> None:
    settings = settings_for(
        "127.0.0.1", auth=None, hosts=(), behind_proxy=False, any_task=False, origins=(SHOP, "http://localhost:3000")
    )
    assert settings.origins == (SHOP, "http://localhost:3000")
