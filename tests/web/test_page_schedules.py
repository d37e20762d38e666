"""The pages of schedules: when they fire, what they made, and what operators do there."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import NotFound
from holdfast.model.schedules import ScheduleState
from holdfast.model.values import micros_of

from .browse_kit import HOSTILE, act, page, said, shown, submit
from .form_kit import live_parts
from .web_kit import Site


@pytest.fixture
def nightly(app: holdfast.App) -> str:
    """A schedule that fires on weekdays at three."""
    task = app.tasks["double"].job(21)
    return app.schedules.create("nightly", task, cron="0 3 * * MON-FRI", zone="Europe/Paris").name


def form(**changes: str) -> dict[str, str]:
    """The form of `nightly` as a browser sends it, with some fields changed."""
    as_it_is = {
        "cron": "0 3 * * MON-FRI", "every": "", "zone": "Europe/Paris", "arguments": '{"n": 21}', "queue": "default",
        "priority": "0", "missed": "one", "max_missed": "100", "overlap": "allow", "jitter": "0",
    }  # fmt: skip
    return as_it_is | changes


def test_without_schedules_the_list_says_how_to_make_one(site: Site, app: holdfast.App) -> None:
    assert "No schedules yet" in page(site, "/schedules")


def test_the_list_says_when_in_words_and_what_the_last_runs_came_to(
    site: Site, app: holdfast.App, nightly: str
) -> None:
    app.schedules.create("often", app.tasks["broken"].job("x"), every=60)
    app.schedules.run_now("often")
    app.schedules.pause("often")
    text = shown(site, "/schedules")
    assert "At 03:00, Monday to Friday" in text
    assert "0 3 * * MON-FRI" in text
    assert "Every minute" in text
    assert "paused" in text
    assert live_parts(site, "/schedules") == 2
    assert "nightly" not in page(site, "/schedules?state=paused").partition("<tbody>")[2]
    assert "often" not in page(site, "/schedules?q=DOUBLE").partition("<tbody>")[2]
    assert "No matching schedules" in page(site, "/schedules?q=nothing")


def test_a_schedules_page_shows_its_next_runs_and_those_that_were(site: Site, app: holdfast.App, nightly: str) -> None:
    start = "2026-03-02T00:00"
    act(site, f"/schedules/{nightly}/backfill", start=start, end="2026-03-04T00:00")
    app.drain()
    text = shown(site, f"/schedules/{nightly}")
    jobs = app.schedules.ticks(nightly)
    assert len(jobs) == 2
    for made in jobs:
        assert f'data-key="{micros_of(made.tick)}"' in text
        assert f"/jobs/{made.job_id}" in text
    assert text.count("in Europe/Paris") == 8
    assert "Succeeded" in text
    assert live_parts(site, f"/schedules/{nightly}") == 4


def test_arguments_are_withheld_without_the_scope_for_them(site: Site, app: holdfast.App, nightly: str) -> None:
    assert '"n"' in shown(site, f"/schedules/{nightly}")
    viewer = site.as_role("viewer")
    text = shown(viewer, f"/schedules/{nightly}")
    assert '"n"' not in text
    assert "withheld" in text
    assert f'action="/schedules/{nightly}' not in text
    assert "Backfill" not in shown(viewer, f"/schedules/{nightly}?tab=backfill")
    for path in ("pause", "resume", "run", "delete", "edit"):
        assert submit(viewer, f"/schedules/{nightly}/{path}").status_code == 403


def test_pause_and_resume_say_so_where_nothing_changes(site: Site, app: holdfast.App, nightly: str) -> None:
    operator = site.as_role("operator")
    assert "Paused" in said(submit(operator, f"/schedules/{nightly}/pause", reason="holidays"))
    assert app.schedules.get(nightly).state is ScheduleState.PAUSED
    assert "already" in said(submit(operator, f"/schedules/{nightly}/pause"))
    assert "Resume" in page(operator, f"/schedules/{nightly}")
    assert "Active" in said(submit(operator, f"/schedules/{nightly}/resume"))
    assert "already" in said(submit(operator, f"/schedules/{nightly}/resume"))
    entry = next(entry for entry in app.audit.list() if entry.action == "schedule.pause")
    assert (entry.actor, entry.reason) == ("token:operator-all", "holidays")
    assert "holidays" in page(operator, f"/schedules/{nightly}")


def test_run_now_makes_a_job_and_leads_to_it(site: Site, app: holdfast.App, nightly: str) -> None:
    answer = submit(site, f"/schedules/{nightly}/run", confirmed="yes")
    assert "Enqueued by" in said(answer)
    job = answer.headers["location"].rpartition("/")[2]
    assert app.jobs.get(job).task == "double"


def test_run_now_says_which_job_is_in_the_way(site: Site, app: holdfast.App) -> None:
    app.schedules.create("alone", app.tasks["double"].job(1), every=60, overlap="skip")
    submit(site, "/schedules/alone/run")
    assert "No job enqueued" in said(submit(site, "/schedules/alone/run"))


def test_an_edit_changes_what_differs_and_nothing_else(site: Site, app: holdfast.App, nightly: str) -> None:
    said_then = said(submit(site, f"/schedules/{nightly}/edit", **form(cron="30 4 * * *", arguments='{"n": 5}')))
    assert "arguments, cron" in said_then
    schedule = app.schedules.get(nightly)
    assert (schedule.cron, schedule.arguments, schedule.zone) == ("30 4 * * *", {"n": 5}, "Europe/Paris")
    assert set(schedule.edited) == {"expression", "payload"}
    same = said(submit(site, f"/schedules/{nightly}/edit", **form(cron="30 4 * * *", arguments='{"n": 5}')))
    assert "No changes" in same


def test_an_edit_from_an_expression_to_an_interval(site: Site, app: holdfast.App, nightly: str) -> None:
    said(submit(site, f"/schedules/{nightly}/edit", **form(cron="", every="90s")))
    schedule = app.schedules.get(nightly)
    assert (schedule.cron, schedule.every) == (None, 90.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"cron": "61 * * * *"}, "not valid"),
        ({"every": "30m"}, "not both"),
        ({"zone": "Middle/Earth"}, "no time zone"),
        ({"arguments": "{"}, "not valid JSON"),
        ({"arguments": '{"m": 1}'}, "m"),
        ({"priority": "high"}, "whole number"),
        ({"missed": "perhaps"}, "missed"),
    ],
)
def test_an_edit_that_is_refused_says_why_and_keeps_what_was_written(
    site: Site, app: holdfast.App, nightly: str, changes: dict[str, str], complaint: str
) -> None:
    before = app.schedules.get(nightly)
    answer = submit(site, f"/schedules/{nightly}/edit", **form(**changes))
    assert answer.status_code == 422
    assert complaint in answer.text
    assert app.schedules.get(nightly) == before


def test_a_preview_shows_when_it_would_fire_and_changes_nothing(site: Site, app: holdfast.App, nightly: str) -> None:
    before = app.schedules.get(nightly)
    answer = submit(site, f"/schedules/{nightly}/edit", **form(cron="0 0 1 1 *"), preview="yes")
    assert answer.status_code == 200
    assert answer.text.count("-01-01T") + answer.text.count("-12-31T23:00:00") >= 5
    assert app.schedules.get(nightly) == before


def test_a_backfill_counts_first_and_leaves_ticks_alone_that_have_a_job(
    site: Site, app: holdfast.App, nightly: str
) -> None:
    span = {"start": "2026-03-02T00:00", "end": "2026-03-09T00:00"}
    counted = submit(site, f"/schedules/{nightly}/backfill", **span)
    assert "<strong>5</strong> jobs" in counted.text
    assert app.schedules.ticks(nightly) == []
    assert "5 jobs enqueued" in act(site, f"/schedules/{nightly}/backfill", **span)
    assert len(app.schedules.ticks(nightly)) == 5
    assert "5 runs already exist" in submit(site, f"/schedules/{nightly}/backfill", **span).text
    assert "already exist" in act(site, f"/schedules/{nightly}/backfill", **span)


def test_a_backfill_of_too_much_or_of_nonsense_is_refused(site: Site, app: holdfast.App, nightly: str) -> None:
    for span in ({"start": "2000-01-01T00:00", "end": "2026-01-01T00:00"}, {"start": "soon", "end": "later"}):
        answer = submit(site, f"/schedules/{nightly}/backfill", **span)
        assert answer.status_code == 422
        assert "Backfill failed" in answer.text


def test_a_schedule_is_deleted_after_the_question(site: Site, app: holdfast.App, nightly: str) -> None:
    assert "Delete nightly?" in submit(site, f"/schedules/{nightly}/delete").text
    app.schedules.get(nightly)
    assert "deleted" in act(site, f"/schedules/{nightly}/delete")
    with pytest.raises(NotFound):
        app.schedules.get(nightly)
    assert submit(site, f"/schedules/{nightly}/delete", confirmed="yes").status_code == 404


def test_a_new_schedule_is_made_from_the_form(site: Site, app: holdfast.App) -> None:
    assert "Create schedule" in page(site, "/schedules?make=yes")
    given = form(cron="*/5 * * * *", priority="", max_missed="", jitter="", queue="mail") | {"task": "double"}
    operator = site.as_role("operator")
    assert "created" in said(submit(operator, "/schedules", name="five", **given))
    made = app.schedules.get("five")
    assert (made.cron, made.queue, made.origin) == ("*/5 * * * *", "mail", "runtime")
    again = submit(operator, "/schedules", name="five", **given)
    assert again.status_code == 422
    assert "five" in again.text
    unknown = submit(operator, "/schedules", name="six", **(given | {"task": "nobody"}))
    assert unknown.status_code == 422
    assert submit(site.as_role("viewer"), "/schedules", name="six", **given).status_code == 403


def test_hostile_names_stay_text(site: Site, app: holdfast.App) -> None:
    app.schedules.create(HOSTILE, app.tasks["double"].job(1), every=60)
    path = page(site, "/schedules").partition('data-href="')[2].partition('"')[0]
    for text in (page(site, "/schedules"), page(site, path)):
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text
    assert "Paused" in said(submit(site, f"{path}/pause"))


def test_a_tenant_has_its_own_schedules_under_short_names(site: Site, app: holdfast.App, nightly: str) -> None:
    acme = site.as_role("operator", tenant="acme")
    given = form(cron="0 5 * * *", priority="", max_missed="", jitter="") | {"task": "double"}
    assert "digest created" in said(submit(acme, "/schedules", name="digest", **given))
    assert app.schedules.of("acme").get("digest").tenant == "acme"
    text = page(acme, "/schedules")
    assert "digest" in text
    assert "nightly" not in text
    page(acme, "/schedules/nightly", 404)
    assert submit(acme, f"/schedules/{nightly}/pause").status_code == 404
    act(acme, "/schedules/digest/backfill", start="2026-03-02T00:00", end="2026-03-04T00:00")
    assert page(acme, "/schedules/digest").count("/jobs/01") >= 2


def test_an_operator_of_all_tenants_tells_schedules_of_one_name_apart(site: Site, app: holdfast.App) -> None:
    for tenant in ("acme", "beta"):
        app.schedules.create("digest", app.tasks["double"].options(tenant=tenant).job(1), every=60)
    text = page(site, "/schedules")
    assert "/schedules/digest?tenant=acme" in text
    assert "/schedules/digest?tenant=beta" in text
    page(site, "/schedules/digest", 404)
    assert "Paused" in said(submit(site, "/schedules/digest/pause", tenant="acme", reason="acme is late"))
    assert [one.state for one in app.schedules.list()] == ["paused", "active"]
    assert "acme is late" in page(site, "/schedules/digest?tenant=acme")
    assert "acme is late" not in page(site, "/schedules/digest?tenant=beta")
    assert 'name="tenant" value="beta"' in page(site, "/schedules/digest?tenant=beta&tab=edit")
