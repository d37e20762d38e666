"""What a person's hands do on a page: press, answer the question, read what was said."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def press(page: Page | Locator, label: str) -> None:
    """Press the button with this label."""
    page.get_by_role("button", name=label, exact=True).click()


def confirm(page: Page, reason: str = "") -> None:
    """Say yes to the question that has come up."""
    dialog = page.locator("dialog#confirm[open]")
    dialog.wait_for()
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    dialog.locator("button[value=yes]").click()


def menu(page: Page | Locator, label: str) -> Locator:
    """Open a menu; its inside."""
    summary = page.locator(f'summary[aria-label="{label}"]')
    summary.click()
    return summary.locator("xpath=..").locator(".popup")


def told(page: Page, text: str) -> None:
    """Wait until the page says this after an act, and its scripts run: before that, buttons act without a question."""
    expect(page.locator("[data-toasts]")).to_contain_text(text)
    page.wait_for_load_state()


def still(page: Page) -> Page:
    """The page as it is when what it follows is slow to come."""
    page.add_init_script("window.EventSource = class extends EventTarget { close() {} }")
    return page


def alive(page: Page) -> None:
    """Wait until the page follows what happens, and listens to keys."""
    page.locator("[data-pulse][data-state=on]").wait_for()
