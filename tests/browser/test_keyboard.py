"""The main path without a pointer, and always with a focus that can be seen."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from .hands import alive
from .shop import Shop

# What is focused shows it, by an outline, a shadow or a colour that it has not without.
SEEN = """() => { const one = document.activeElement; const seen = (e) => { const s = getComputedStyle(e);
  const outline = s.outlineStyle === "none" ? "" : s.outlineWidth + s.outlineColor;
  return [outline, s.boxShadow, s.backgroundColor, s.borderColor].join(); };
  const around = [one, one.closest("label"), one.closest("tr")].filter(Boolean);
  const focused = around.map(seen); one.blur(); const blurred = around.map(seen); one.focus();
  return focused.some((look, n) => look !== blurred[n]) ? "" : one.outerHTML.slice(0, 200); }"""


def focus(page: Page) -> str:
    return str(page.evaluate("document.activeElement.outerHTML.slice(0, 300)"))


def test_the_main_path_needs_no_pointer(context: BrowserContext, guarded: str, shop: Shop) -> None:
    secret = shop.ask(lambda app: app.tokens.create("keys only", role="operator").secret)
    older, newer = shop.some(2, tags=["keys"])
    page = context.new_page()
    page.goto(f"{guarded}/login")
    tab_to(page, "input[name=token]")
    page.keyboard.type(secret)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{guarded}/")
    alive(page)
    page.keyboard.press("/")
    assert "data-find" in focus(page)
    page.keyboard.type("tag:keys")
    page.keyboard.press("Enter")
    page.locator(f'tr[data-key="{older}"]').wait_for()
    alive(page)
    for key in "jjk":
        page.keyboard.press(key)
    assert f'data-key="{newer}"' in focus(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{guarded}/jobs/{older}")
    alive(page)
    tab_to(page, 'form[action$="/cancel"] button')
    page.keyboard.press("Enter")
    page.locator("dialog#confirm[open]").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#confirm")).to_be_hidden()
    assert shop.state(older) == "ready"
    assert "icon-cancel" in focus(page), "the focus comes back to what asked"
    page.keyboard.press("Enter")
    tab_to(page, "dialog#confirm textarea")
    page.keyboard.type("by hand")
    tab_to(page, "dialog#confirm button[value=yes]")
    page.keyboard.press("Enter")
    expect(page.locator("[data-toasts]")).to_contain_text("The job is cancelled.")
    assert shop.state(older) == "cancelled"


def test_every_stop_on_the_way_can_be_seen(page: Page) -> None:
    for path in ("/", "/jobs", "/queues", "/limits"):
        page.goto(path)
        unseen = set[str]()
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            if hidden := page.evaluate(SEEN):
                unseen.add(hidden)
        assert unseen == set(), path


def test_rows_are_chosen_by_key_and_escape_lets_go(page: Page, shop: Shop) -> None:
    shop.some(2, tags=["picked"])
    page.goto("/jobs?q=tag:picked")
    alive(page)
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.locator("[data-bulk-count]")).to_have_text("2 selected")
    page.keyboard.press("Escape")
    expect(page.locator("[data-bulk-count]")).to_have_text("0 selected")


def test_letters_lead_to_pages_and_help_tells_them(page: Page, address: str) -> None:
    page.goto("/")
    alive(page)
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    for key, path in (("q", "/queues"), ("e", "/errors"), ("j", "/jobs"), ("o", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(address + path)
        alive(page)


def test_menus_open_and_close_by_key(page: Page, shop: Shop) -> None:
    (job,) = shop.some(1)
    page.goto(f"/jobs/{job}")
    tab_to(page, 'summary[aria-label="More actions"]')
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete")).to_be_hidden()
    assert "More actions" in focus(page)


def tab_to(page: Page, selector: str) -> None:
    for _ in range(60):
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached; the focus is on {focus(page)}")
