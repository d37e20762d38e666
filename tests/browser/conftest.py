"""A real browser on a real server: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from holdfast.storage.ops.stats import errors
from tests.web.web_kit import served

from .looking import Complaints
from .shop import Shop, open_shop

CHROMIUM = ("chromium", "google-chrome")
PATIENCE = 30_000

_visitors = itertools.count(1)

Visit: TypeAlias = Callable[[str], Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.extended)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for the tests of this folder: beside it, nothing could run an event loop of its own in this thread.

    Without Chromium they fail: `make test-all` installs it.
    """
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path, "no Chromium found; on Debian: apt-get install chromium"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop at work, the same for all tests: each makes what it acts on."""
    store = str(tmp_path_factory.mktemp("shop") / "shop.db")
    with pytest.MonkeyPatch.context() as patch:
        # Errors are grouped without waiting for their neighbours.
        patch.setattr(errors, "_LAG", 0)
        with open_shop(store) as shop:
            yield shop


@pytest.fixture(scope="package")
def address(shop: Shop) -> Iterator[str]:
    """Where its site is served to the local administrator."""
    with served(shop.app, auth="off") as address:
        yield address


@pytest.fixture(scope="package")
def guarded(shop: Shop) -> Iterator[str]:
    """Where its site is served to those who log in."""
    with served(shop.app, secure=False) as address:
        yield address


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """A fresh profile, on a desk. What its pages complain of fails the test."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    complaints = Complaints(context)
    yield context
    found = complaints.found
    context.close()
    assert found == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A fresh page for the local administrator."""
    return context.new_page()


@pytest.fixture
def visit(browser: Browser, guarded: str, shop: Shop) -> Iterator[Visit]:
    """A page for somebody with this role, logged in."""
    contexts: list[BrowserContext] = []

    def visit(role: str) -> Page:
        secret = shop.ask(lambda app: app.tokens.create(f"{role} {next(_visitors)}", role=role).secret)
        session = shop.ask(lambda app: app.tokens.login(secret))
        assert session is not None
        context = browser.new_context(base_url=guarded, viewport={"width": 1280, "height": 900})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.add_cookies([{"name": "holdfast_session", "value": session[0], "url": guarded, "sameSite": "Strict"}])
        page = context.new_page()
        page.goto("/")
        return page

    yield visit
    for context in contexts:
        context.close()
