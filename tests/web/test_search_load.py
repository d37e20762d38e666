"""Searches over large payloads, many at once: the site goes on answering, and each search ends in its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

import holdfast
from holdfast.web.search import aside, finding

from .web_kit import Site


@pytest.fixture
def large(app: holdfast.App) -> None:
    """Jobs whose arguments are as large as they may be in a row."""

    @app.task
    def store(text: str) -> None: ...

    text = "needles in hay " * 10_000
    for start in range(0, 400, 50):
        app.enqueue_many([store.job(f"{n} {text}") for n in range(start, start + 50)])


def longest_pause(site: Site, calls: list[Callable[[], Awaitable[object]]]) -> float:
    """The longest time for which these calls held the event loop up."""

    async def main() -> float:
        worst, began = 0.0, time.perf_counter()
        running = asyncio.gather(*(call() for call in calls))
        while not running.done():
            await asyncio.sleep(0.005)
            worst, began = max(worst, time.perf_counter() - began), time.perf_counter()
        await running
        return worst

    pause: float = site.run(main())
    return pause


@pytest.mark.parametrize("path", ["/jobs?q=nowhere-to-be-found", "/api/v1/jobs?text=nowhere-to-be-found"])
def test_eight_searches_over_large_payloads_do_not_hold_up_the_loop(site: Site, large: None, path: str) -> None:
    async def search() -> None:
        assert (await site.acall("GET", path)).status_code == 200

    longest_pause(site, [search])  # the first also compiles the page
    # On the loop itself they held it up for 2.7 s together.
    assert min(longest_pause(site, [search] * 8) for _ in range(3)) < 1.0


def test_a_search_ends_after_its_time_with_what_it_found(
    site: Site, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "SECONDS", 0.0)
    page = site.call("GET", "/jobs?q=hay").text
    assert "needles" not in page or page.count("<tr") < 50
    assert "before=" in page, "the next page continues there"


def test_more_searches_than_may_wait_are_refused(site: Site, large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "WAITING", 2)

    async def main() -> list[int]:
        answers = await asyncio.gather(*(site.acall("GET", "/api/v1/jobs?text=nowhere") for _ in range(12)))
        return [answer.status_code for answer in answers]

    codes = site.run(main())
    assert set(codes) == {200, 503}
    assert site.call("GET", "/api/v1/jobs?text=nowhere").status_code == 200, "and the next one is welcome again"
