"""The frame around every page."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_the_first_page_opens_without_complaint(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def test_a_page_that_is_not_there_says_what_to_do(page: Page) -> None:
    answer = page.request.get("/nowhere")
    assert answer.status == 404
    assert "Not found" in answer.text()
