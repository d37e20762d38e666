"""What happens appears on open pages by itself, and nobody is followed who does not look."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .hands import alive, press
from .shop import Shop

# Headless pages are never hidden; this is what hiding does.
HIDE = """(hidden) => { Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event("visibilitychange")); }"""
SOURCES = """(() => { const Real = EventSource; window.sources = [];
  window.EventSource = class extends Real {
    constructor(...given) { super(...given); window.sources.push(this); } }; })()"""


def follow(page: Page, path: str) -> None:
    page.goto(path)
    alive(page)


def test_a_job_appears_and_ends_without_a_reload(page: Page, shop: Shop) -> None:
    follow(page, "/jobs?q=tag:news")
    page.evaluate("window.untouched = true")
    (job,) = shop.some(1, tags=["news"])
    row = page.locator(f'tr[data-key="{job}"]')
    expect(row).to_contain_text("Ready")
    shop.run("mail")
    expect(row).to_contain_text("Succeeded")
    assert page.evaluate("window.untouched"), "the page was loaded again"


def test_the_page_of_a_job_follows_it(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    follow(page, f"/jobs/{job}")
    shop.run("mail")
    expect(page.locator("[data-live-id=state]")).to_contain_text("Succeeded")
    expect(page.locator("[data-live-id=acts]")).to_contain_text("Run again")
    expect(page.locator("[data-live-id=tab]")).to_contain_text("sent to somebody0@example.com")


def test_the_first_page_follows_what_is_done_elsewhere(page: Page, shop: Shop) -> None:
    follow(page, "/queues")
    shop.ask(lambda app: app.queues.pause("billing"))
    expect(page.locator('tr[data-key="billing"]')).to_contain_text("Paused")
    shop.ask(lambda app: app.queues.resume("billing"))
    expect(page.locator('tr[data-key="billing"]')).not_to_contain_text("Paused")


def test_a_stream_shows_what_is_said_as_it_is_said(page: Page, shop: Shop) -> None:
    film = shop.film("Our Hospitality")
    page.goto(f"/jobs/{film}?tab=stream")
    text = page.locator("[data-stream-text]")
    expect(text).to_contain_text("Our Hospitality, scene 1")
    expect(page.locator("[data-stream-state]")).to_have_text("Live")
    shop.doors["Our Hospitality"].set()
    expect(text).to_contain_text("Our Hospitality, scene 2")
    shop.ask(lambda app: app.jobs.cancel(film, force=True))
    expect(page.locator("[data-stream-state]")).to_have_text("Ended")


def test_a_hidden_page_follows_nothing_and_catches_up_when_it_is_seen(page: Page, shop: Shop) -> None:
    page.add_init_script(SOURCES)
    follow(page, "/jobs?q=tag:hidden")
    page.evaluate(HIDE, True)
    assert page.evaluate("sources.map((one) => one.readyState)") == [2]
    (job,) = shop.some(1, tags=["hidden"])
    page.evaluate(HIDE, False)
    page.locator(f'tr[data-key="{job}"]').wait_for()
    assert page.evaluate("sources.map((one) => one.readyState)") == [2, 1]


def test_a_page_has_one_connection_and_a_stream_one_more(page: Page, shop: Shop) -> None:
    page.add_init_script(SOURCES)
    for path in ("/", "/jobs", "/queues", "/workers"):
        follow(page, path)
        assert page.evaluate("sources.length") == 1, path


def test_an_update_leaves_a_choice_and_a_half_written_text_alone(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1, tags=["mine"])
    follow(page, "/jobs?q=tag:mine")
    page.locator(f'tr[data-key="{job}"] [data-pick]').check()
    page.locator("[data-search]").fill("tag:mi")
    shop.some(1, tags=["mine"])
    expect(page.locator("[data-live-id=chips]")).to_be_visible()
    page.wait_for_timeout(1500)
    assert page.locator(f'tr[data-key="{job}"] [data-pick]').is_checked()
    assert page.locator("[data-search]").input_value() == "tag:mi"
    page.locator("[data-bulk-none]").click()
    expect(page.locator("[data-rows] tbody tr")).to_have_count(2)
    press(page, "Search")
