"""Who may do what, as a browser finds it: viewers look, strangers log in, and other sites get nothing done."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from holdfast.web.guard import identify

from .conftest import Visit
from .places import PLACES, things
from .shop import Shop

EVIL = "http://evil.example/"


def post(page: Page, path: str, fields: str = "confirmed=yes") -> int:
    """A form that the page does not have, sent from it."""
    send = """async ([path, body]) => (await fetch(path, {method: "POST", redirect: "manual", body,
      headers: {"content-type": "application/x-www-form-urlencoded"}})).status"""
    status: int = page.evaluate(send, [path, fields])
    return status


def test_a_viewer_finds_no_form_that_acts_on_any_page(visit: Visit, shop: Shop) -> None:
    page = visit("viewer")
    known = shop.ask(things)
    for place in (place for path, places in PLACES.items() if path != "/login" for place in places):
        main = page.request.get(place.format(**known)).text().partition("<main")[2].partition("</main>")[0]
        assert main, place
        assert 'method="post"' not in main, place


def test_a_viewer_who_acts_nevertheless_is_refused_and_recorded(visit: Visit, shop: Shop) -> None:
    page = visit("viewer")
    (job,) = shop.some(1)
    assert post(page, f"/jobs/{job}/cancel") == 403
    assert shop.state(job) == "ready"
    (tried, *_) = shop.ask(lambda app: app.audit.list(action="access.refused"))
    assert tried.actor.startswith("token:viewer") and tried.target == f"POST /jobs/{job}/cancel"


def test_a_viewer_is_told_nothing_that_jobs_carry(visit: Visit, shop: Shop) -> None:
    page = visit("viewer")
    job = shop.enqueue("mail.send", "a-secret@example.com")
    for tab in ("overview", "stream", "again"):
        page.goto(f"/jobs/{job}?tab={tab}")
        assert "a-secret@" not in page.content()


def test_an_operator_acts_but_makes_no_tokens(visit: Visit, shop: Shop) -> None:
    page = visit("operator")
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.locator("[data-toasts]")).to_contain_text("The job is held.")
    assert shop.state(job) == "blocked"
    page.goto("/settings")
    assert page.locator("#new-token").count() == 0
    assert post(page, "/settings/tokens", "name=mine&role=admin") == 403


def test_a_stranger_logs_in_and_comes_to_where_he_wanted(context: BrowserContext, guarded: str, shop: Shop) -> None:
    page = context.new_page()
    page.goto(f"{guarded}/jobs?state=failed")
    assert "/login?next=" in page.url
    page.get_by_label("Token").fill("hf_" + "A" * 43)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".field-error")).to_contain_text("revoked token")
    secret = shop.ask(lambda app: app.tokens.create("a stranger", role="viewer").secret)
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{guarded}/jobs?state=failed")
    cookie = next(one for one in context.cookies() if "session" in one["name"])
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    page.locator("summary[aria-label^='Account']").click()
    page.get_by_role("button", name="Log out").click()
    page.goto(f"{guarded}/jobs")
    assert "/login" in page.url


def test_a_revoked_token_ends_the_session(visit: Visit, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identify, "TRUSTED_SECONDS", 0.0)
    page = visit("operator")
    token = max(shop.ask(lambda app: app.tokens.list()), key=lambda one: one.created_at)
    shop.ask(lambda app: app.tokens.revoke(token.id))
    page.goto("/jobs")
    expect(page.get_by_label("Token")).to_be_visible()


@pytest.mark.parametrize("path", ["/jobs/{job}/cancel", "/api/v1/jobs/{job}/cancel"])
def test_the_form_of_another_site_gets_nothing_done(page: Page, shop: Shop, address: str, path: str) -> None:
    (job,) = shop.some(1)
    action = address + path.format(job=job)
    body = f'<form method="post" action="{action}"><input name="confirmed" value="yes"></form>'
    page.route(EVIL, lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(EVIL)
    with page.expect_navigation() as went:
        page.evaluate("document.forms[0].submit()")
    assert went.value is not None
    assert went.value.status == 403
    assert shop.state(job) == "ready"


def test_another_site_cannot_frame_ours(page: Page, address: str) -> None:
    answer = page.request.get("/")
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy
