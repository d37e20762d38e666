"""Every page, on a desk and on a phone, in light and in dark: nothing to complain of."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page

from holdfast.web.pages import PAGES

from .looking import DESK, PHONE, Reader, cut, wide
from .places import PLACES, things
from .shop import Shop

OPENED = [op.path for group in PAGES for op in group.operations if op.method == "GET"]


@pytest.fixture(scope="module")
def known(shop: Shop) -> dict[str, str]:
    """The ids of what the addresses show."""
    return shop.ask(things)


def test_every_page_that_can_be_opened_is_looked_at() -> None:
    assert set(OPENED) == set(PLACES)


@pytest.mark.parametrize("place", [place for path in OPENED for place in PLACES.get(path, ())])
def test_a_page_is_in_order(context: BrowserContext, known: dict[str, str], place: str) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    answer = page.goto(place.format(**known))
    assert answer is not None
    assert answer.status == (400 if "colour:red" in place else 200)
    assert {"wide": [*problems(page, DESK), *cut(page)], "narrow": problems(page, PHONE)} == {"wide": [], "narrow": []}


def problems(page: Page, width: int) -> list[str]:
    """In both themes."""
    page.set_viewport_size({"width": width, "height": 900})
    reader = Reader(page)
    page.emulate_media(color_scheme="light")
    found = reader.problems()
    page.emulate_media(color_scheme="dark")
    return [*found, *reader.problems("colours"), *([over] if (over := wide(page)) else [])]
