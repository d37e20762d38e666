"""Jobs in a browser: choosing, acting with a count first, undoing, saved views, and streams that arrive."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .shop import Shop


def test_chosen_jobs_are_held_after_a_count_and_released_by_undo(page: Page, shop: Shop) -> None:
    job_id = shop.enqueue("mail.send", "ada", delay=3600)
    page.goto("/jobs?q=state:ready task:mail.send")
    page.get_by_role("checkbox", name=f"Select job {job_id}").check()
    expect(page.get_by_text("1 selected", exact=True)).to_be_visible()
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Hold 1 job?")
    page.get_by_role("button", name="Hold 1 job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Held: 1 job")
    assert shop.state(job_id) == "blocked"
    page.get_by_role("button", name="Undo: release them").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Released: 1 job")
    assert shop.state(job_id) == "ready"


def test_new_jobs_appear_by_themselves(page: Page, shop: Shop) -> None:
    page.goto("/jobs")
    expect(page.locator("[data-pulse]")).to_have_attribute("data-state", "on")
    job_id = shop.enqueue("mail.send", "ada", delay=3600)
    expect(page.locator(f'tr[data-key="{job_id}"]')).to_be_visible()


def test_a_view_is_saved_in_the_browser_and_opened_again(page: Page) -> None:
    page.goto("/jobs?q=state:failed")
    page.get_by_label("Views", exact=True).click()
    page.get_by_placeholder("Name this view").fill("Broken <b>things</b>")
    page.get_by_role("button", name="Save").click()
    page.goto("/jobs")
    page.get_by_label("Views", exact=True).click()
    page.get_by_role("link", name="Broken <b>things</b>").click()
    expect(page.locator("[data-views-line]")).to_have_value("state:failed")


def test_a_job_is_cancelled_after_a_question(page: Page, shop: Shop) -> None:
    job_id = shop.enqueue("mail.send", "ada", delay=3600)
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a mistake")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_text("The job is cancelled.", exact=True)).to_be_visible()
    assert shop.ask(lambda app: app.jobs.get(job_id).reason) == "a mistake"


def test_what_a_job_has_said_is_followed_to_its_end(page: Page, shop: Shop) -> None:
    job_id = shop.waiting()
    page.goto(f"/jobs/{job_id}?tab=stream")
    expect(page.locator("[data-stream-text]")).to_contain_text("once upon a time")
    expect(page.locator("[data-stream-state]")).to_have_text("Live")
    shop.ask(lambda app: app.jobs.cancel(job_id))
    expect(page.locator("[data-stream-state]")).to_have_text("Ended")


def test_the_list_is_walked_by_the_keyboard_alone(page: Page) -> None:
    page.goto("/jobs?q=state:failed")
    page.keyboard.press("j")
    row = page.locator("tbody tr.at")
    expect(row).to_have_count(1)
    href = row.get_attribute("data-href")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{href}")
