"""A real browser on a real server: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from holdfast.storage.ops.stats import errors
from tests.web.web_kit import served

from .looking import PATIENCE, Complaints, chromium
from .shop import Shop, open_shop

_visitors = itertools.count(1)

Visit: TypeAlias = Callable[[str], Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.extended)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for this folder's tests: beside it, nothing could run an event loop of its own in this thread."""
    with chromium() as browser:
        yield browser


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
