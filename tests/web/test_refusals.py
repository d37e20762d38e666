"""What those who may not act cost the store: a flood of refusals is recorded in sum, and garbage is not written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import holdfast
from holdfast.web.api.signals import _MISSES
from tests.patience import SOON

from .web_kit import Site


@pytest.fixture(autouse=True)
def no_misses_yet() -> Iterator[None]:
    _MISSES._left.clear()
    yield
    _MISSES._left.clear()


def writes(app: holdfast.App) -> int:
    """The writes that this process made to the store."""
    reads = ("signals.is_refused", "signals.refused_tokens", "access.identify", "audit.list_audit")
    return sum(one.count for one in app.stats.operations() if one.operation not in reads)


def test_garbage_in_place_of_tokens_is_refused_without_a_write_for_each(site: Site, app: holdfast.App) -> None:
    nobody = site.as_nobody()
    nobody.call("POST", "/api/v1/signals", json={"token": "first"})
    before = writes(app)
    answers = [nobody.call("POST", "/api/v1/signals", json={"token": f"v1.x.{n}.z"}) for n in range(300)]
    assert {answer.status_code for answer in answers} == {404, 429}
    looked_up = sum(answer.status_code == 404 for answer in answers)
    assert looked_up < 40, "the bucket is asked before the store"
    assert writes(app) - before <= 1, "refused tokens are counted in sum"
    assert app.signals.refused() == 1 + looked_up


def test_garbage_from_code_is_counted_in_sum(site: Site, app: holdfast.App) -> None:
    before = writes(app)
    for n in range(50):
        with pytest.raises(holdfast.errors.InvalidToken):
            app.signal(f"v1.x.{n}.z", payload=True)
    assert writes(app) - before <= 1
    assert app.signals.refused() == 50


def test_a_flood_of_refused_requests_is_audited_in_sum(site: Site, app: holdfast.App) -> None:
    viewer = site.as_role("viewer")
    answers = [viewer.call("POST", f"/api/v1/queues/q{n}/pause", json={}) for n in range(300)]
    assert {answer.status_code for answer in answers} == {403}
    one_by_one = app.audit.list(action="access.refused", limit=1_000)
    assert 10 <= len(one_by_one) < 40
    assert {record.actor for record in one_by_one} == {"token:viewer-all"}


def test_the_sum_of_a_flood_is_written_when_it_is_over(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.web.wire.access_log.SUM_SECONDS", 0.05)
    viewer = site.as_role("viewer")
    for n in range(100):
        viewer.call("POST", f"/api/v1/queues/q{n}/pause", json={})

    async def all_are_counted() -> None:
        recorded = 0
        while recorded < 100:
            records = await app.audit.alist(action="access.refused", limit=1_000)
            recorded = sum(int(one.reason.split()[0]) if one.target == "more" else 1 for one in records)
            await asyncio.sleep(0.01)
        assert recorded == 100
        assert "the last was POST /queues/q99/pause" in records[0].reason

    site.run(asyncio.wait_for(all_are_counted(), SOON))


def test_each_token_has_a_rate_unless_the_settings_say_otherwise(site: Site) -> None:
    assert holdfast.web.WebSettings().rate > 0
    viewer = site.with_settings(rate=3).as_role("viewer")
    codes = [viewer.call("GET", "/api/v1/queues").status_code for _ in range(10)]
    assert codes[:3] == [200, 200, 200]
    assert 429 in codes
