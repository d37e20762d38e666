"""A job may have a title for people, which every surface shows."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import InvalidInput
from tests.acceptance.cli_kit import call

from .browse_kit import page
from .web_kit import Site

TITLE = "Invoice 4711 of <Ada>"


def test_a_title_is_stored_by_every_way_to_enqueue_and_kept_by_what_follows(app: holdfast.App) -> None:
    work = app.tasks["double"].options(title=TITLE)
    keyed = work.options(dedupe_key="k").enqueue(1)
    many = app.enqueue_many([work.job(n) for n in range(3)])
    with app.flow("pair") as flow:
        member = flow.add(work.job(2))
    app.schedules.create("nightly", work.job(3), cron="0 3 * * *")
    made = app.schedules.run_now("nightly").job_id
    assert made is not None
    for job_id in (work.enqueue(1).id, keyed.id, *(job.id for job in many), member.id, made):
        assert app.jobs.get(job_id).title == TITLE
    assert app.jobs.get(work.options(title=None).enqueue(1).id).title is None


@pytest.mark.parametrize("title", ["", "two\nlines", "x" * 257])
def test_a_title_is_one_short_line(app: holdfast.App, title: str) -> None:
    with pytest.raises(InvalidInput, match="title"):
        app.tasks["double"].options(title=title).enqueue(1)


def test_a_title_is_set_and_shown_over_http(site: Site) -> None:
    made = site.post("/jobs", {"task": "double", "arguments": {"n": 1}, "options": {"title": TITLE}})
    assert site.get(f"/jobs/{made['id']}")["title"] == TITLE
    assert [job["title"] for job in site.get("/jobs")["items"]] == [TITLE]


def test_a_title_is_shown_on_the_page_and_by_the_command_line(
    site: Site, app: holdfast.App, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    job = app.tasks["double"].options(title=TITLE).enqueue(1)
    assert "Invoice 4711 of &lt;Ada&gt;" in page(site, f"/jobs/{job.id}")
    assert TITLE in call("jobs", "show", job.id).out
    assert call("jobs", "show", job.id, "--json").data["jobs"][0]["title"] == TITLE
