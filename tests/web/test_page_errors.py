"""The pages about errors: kinds, their jobs, and retrying them all."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model.jobs import JobState
from holdfast.model.stats import MINUTE, ErrorGroup
from holdfast.model.values import instant_of
from holdfast.storage.ops.stats import errors
from holdfast.web.pages.errors import bars_of, rows_of

from .page_kit import HOSTILE, forms, hidden, opened, posted, words
from .web_kit import Site

NOW = 1_700_000_000_000_000 // MINUTE * MINUTE


@pytest.fixture(autouse=True)
def counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are counted without waiting for their neighbours."""
    monkeypatch.setattr(errors, "_LAG", 0)


def fail(app: holdfast.App, *texts: str, tenant: str | None = None) -> list[str]:
    ids = [app.tasks["broken"].options(tenant=tenant).enqueue(text).id for text in texts]
    app.drain()
    app.stats.roll()
    return ids


def kind(app: holdfast.App) -> str:
    (one,) = app.errors.list()
    return f"/errors/{one.fingerprint}"


def test_a_store_without_errors_says_so(site: Site) -> None:
    assert "No errors" in words(opened(site, "/errors"))
    assert "No errors here" in words(opened(site, "/errors?window=1h&task=x"))


def test_an_unknown_kind_window_or_field_is_refused(site: Site) -> None:
    opened(site, "/errors/0123456789abcdef", 404)
    opened(site, "/errors?window=1y", 400)
    assert "hue" in words(opened(site, "/errors?hue=red", 400))


def test_the_parts_of_the_last_hour_are_counted() -> None:
    bars = bars_of([NOW, NOW - 30 * MINUTE, NOW - 30 * MINUTE, NOW - 90 * MINUTE], NOW)
    assert (len(bars), sum(bars), bars[-1], max(bars)) == (30, 3, 1, 2)


def test_a_kind_that_did_not_come_lately_has_no_bars() -> None:
    seen = instant_of(1)
    one = ErrorGroup(
        fingerprint="f", task="t", type="E", message="m", last_job="j", first_seen=seen, last_seen=seen, count=9
    )
    (row,) = rows_of([one], [], NOW)
    assert (row.recent, sum(row.bars), row.path) == (0, 0, "/errors/f")


def test_errors_are_listed_by_kind(site: Site, app: holdfast.App) -> None:
    fail(app, "no such card 1", "no such card 2")
    page = opened(site, "/errors")
    assert "ValueError no such card 2 broken 2 2" in words(page)
    assert kind(app) in page
    assert "ValueError" in words(opened(site, "/errors?window=1h&task=broken"))
    assert "No errors here" in words(opened(site, "/errors?task=double"))


def test_a_kind_shows_its_way_through_the_code_and_the_jobs_it_hit(site: Site, app: holdfast.App) -> None:
    ids = fail(app, "no such card 1", "no such card 2")
    app.jobs.retry(ids[0])
    page = opened(site, kind(app))
    assert "Traceback" in page and all(job_id in page for job_id in ids)
    assert "Failed 1" in words(page) and "Ready 1" in words(page)


def test_all_jobs_of_a_kind_are_retried_after_a_count(site: Site, app: holdfast.App) -> None:
    ids = fail(app, "no such card 1", "no such card 2")
    app.tasks["broken"].enqueue("something else")
    page = opened(site, kind(app))
    assert forms(page) == ["/jobs"]
    asked = posted(site, "/jobs", action="retry", scope="matching", filter=hidden(page, "filter"))
    assert "Retry 2 jobs?" in words(asked)
    posted(site, "/jobs", action="retry", scope="matching", ids=hidden(asked, "ids"), confirmed="yes", reason="mended")
    assert {app.jobs.get(job_id).state for job_id in ids} == {JobState.READY}
    assert [record.reason for record in app.audit.list(action="job.retry")] == ["mended"]


def test_the_jobs_of_a_kind_are_found_by_its_link(site: Site, app: holdfast.App) -> None:
    (job_id,) = fail(app, "no such card 1")
    fingerprint = kind(app).removeprefix("/errors/")
    assert f'data-key="{job_id}"' in opened(site, f"/jobs?error={fingerprint}")
    assert "No matching jobs" in words(opened(site, "/jobs?error=0123456789abcdef"))


def test_a_viewer_sees_kinds_and_no_actions(site: Site, app: holdfast.App) -> None:
    fail(app, "no such card")
    viewer = site.as_role("viewer")
    assert forms(opened(viewer, "/errors")) == forms(opened(viewer, kind(app))) == []


def test_a_tenant_sees_its_own_kinds_and_runs_alone(site: Site, app: holdfast.App) -> None:
    (ours,) = fail(app, "ours", tenant="acme")
    (theirs,) = fail(app, "theirs", tenant="globex")
    acme = site.as_role("viewer", tenant="acme")
    for path in ("/errors", kind(app)):
        page = opened(acme, path)
        assert "ours" in page and "theirs" not in page and theirs not in page
    assert ours in opened(acme, kind(app))
    opened(site.as_role("viewer", tenant="initech"), kind(app), 404)


def test_hostile_messages_stay_text(site: Site, app: holdfast.App) -> None:
    fail(app, HOSTILE)
    for path in ("/errors", kind(app), "/errors?task=" + "%3Cimg%20src%3Dx%3E"):
        assert "<img" not in opened(site, path)
