"""A real browser on a real server: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

import holdfast
from tests.web.web_kit import served

from .shop import fill, shop_app

T = TypeVar("T")

CHROMIUM = ("chromium", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.extended)


def apart(work: Callable[[], T]) -> T:
    """Run in a thread of its own: Playwright's event loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests. Without Chromium they fail: `make test-all` installs it."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path, "no Chromium found; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[holdfast.App]:
    """An app with jobs in every state."""
    app = shop_app(str(tmp_path / "shop.db"))
    apart(lambda: fill(app))
    yield app
    app.close()


@pytest.fixture
def address(shop: holdfast.App) -> Iterator[str]:
    """Where its site is served."""
    with served(shop, auth="off") as address:
        yield address


class Complaints:
    """What a browser found wrong: errors on its console, broken policies, failed requests."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self._failed(request.url, request.failure or ""))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} {message.location}")

    def _failed(self, url: str, why: str) -> None:
        # Leaving a page ends what it follows; that is no failure.
        if "ERR_ABORTED" not in why:
            self.found.append(f"failed: {url} {why}")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A fresh page. What it complains of fails the test."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints = Complaints(page)
    yield page
    context.close()
    assert complaints.found == []
