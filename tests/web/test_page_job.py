"""The page of one job: what it shows, to whom, and what can be done from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.errors import NotFound
from holdfast.model.jobs import Attempt, JobRecord, JobState
from holdfast.web.pages.job import acts_of, timeline_of
from holdfast.web.pages.job_actions import read_answer

from .page_kit import HOSTILE, acted, forms, opened, posted, words
from .web_kit import Site

TABS = ("overview", "attempts", "steps", "stream", "artifacts", "signals", "again")


@pytest.fixture
def app(store_url: str) -> Iterator[holdfast.App]:
    """An app whose jobs say, leave and ask something."""
    app = holdfast.App(store_url, durable=False)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="mail", max_attempts=1)
    async def broken(text: str) -> None:
        raise ValueError(text)

    @app.task
    async def report(ctx: holdfast.Context, topic: str) -> str:
        await ctx.step("gather", lambda: {"facts": 9})
        await ctx.emit(f"about {topic}: ")
        await ctx.emit({"facts": 9}, kind="log")
        await ctx.artifact("report.md", b"# A report", "text/markdown")
        link = await ctx.waitpoint("approval", expires=3600, type=bool)
        return "approved" if await ctx.wait_for(link, type=bool) else "refused"

    yield app
    app.close()


def enqueue(app: holdfast.App, task: str = "double", argument: object = 21, **options: object) -> str:
    return app.tasks[task].options(**options).enqueue(argument).id  # type: ignore[arg-type]


def failed(app: holdfast.App, text: str = "no such card") -> str:
    job_id = enqueue(app, "broken", text)
    app.drain()
    return job_id


def waiting_report(app: holdfast.App) -> str:
    job_id = enqueue(app, "report", "churn")
    app.drain()
    assert app.jobs.get(job_id).state is JobState.SUSPENDED
    return job_id


def test_the_page_counts_the_attempts_from_before_a_retry_too(site: Site, app: holdfast.App) -> None:
    job_id = failed(app)
    assert "Total attempts" not in words(opened(site, f"/jobs/{job_id}"))
    assert app.jobs.retry(job_id)
    app.drain()
    assert "Total attempts 2" in words(opened(site, f"/jobs/{job_id}"))
    job = site.get(f"/jobs/{job_id}")
    assert (job["attempts"], job["total_attempts"], job["generation"]) == (1, 2, 1)


def test_the_page_and_the_search_line_know_who_enqueued_a_job(site: Site, app: holdfast.App) -> None:
    made, other = enqueue(app, created_by="user:ada"), enqueue(app)
    assert "Created by user:ada" in words(opened(site, f"/jobs/{made}"))
    found = opened(site, "/jobs?q=created_by:user:ada")
    assert (made in found, other in found) == (True, False)


def test_every_tab_opens_in_every_state_for_everybody(site: Site, app: holdfast.App) -> None:
    jobs = {"ready": enqueue(app, delay=3600), "failed": failed(app), "suspended": waiting_report(app)}
    jobs["blocked"] = enqueue(app, delay=3600)
    app.jobs.hold(jobs["blocked"])
    for who in (site, site.as_role("viewer"), site.as_role("operator")):
        for job_id in jobs.values():
            for tab in TABS:
                opened(who, f"/jobs/{job_id}?tab={tab}")


def test_a_job_that_is_not_there_is_not_found(site: Site) -> None:
    opened(site, "/jobs/01m0000000000000000missing", 404)
    opened(site, "/jobs/x?tab=colours", 400)
    opened(site, "/jobs/x?hue=red", 400)


def test_what_a_job_was_given_and_gave_is_shown(site: Site, app: holdfast.App) -> None:
    big = 2**63 + 1
    job_id = enqueue(app, argument=big)
    app.drain()
    said = words(opened(site, f"/jobs/{job_id}"))
    assert str(big) in said and str(2 * big) in said
    assert "Enqueued" in said and "Succeeded" in said


def test_a_viewer_sees_neither_payloads_nor_actions(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    viewer = site.as_role("viewer")
    for tab in TABS:
        page = opened(viewer, f"/jobs/{job_id}?tab={tab}")
        assert forms(page) == [], tab
        assert "churn" not in page and '"facts"' not in page, tab
    assert "withheld" in words(opened(viewer, f"/jobs/{job_id}"))


def test_a_viewer_who_acts_nevertheless_is_refused_and_that_is_on_record(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app)
    viewer = site.as_role("viewer")
    for act in ("cancel", "retry", "run-now", "hold", "release", "delete", "revoke", "resume"):
        assert viewer.call("POST", f"/jobs/{job_id}/{act}", data={"confirmed": "yes"}).status_code == 403
    assert viewer.call("POST", f"/jobs/{job_id}/signal", data={"name": "x"}).status_code == 403
    assert viewer.call("POST", f"/jobs/{job_id}/again", data={"arguments": "{}"}).status_code == 403
    assert app.jobs.get(job_id).state is JobState.READY
    assert len(app.audit.list(action="access.refused")) == 10


def test_why_a_job_waits_stands_on_top(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app)
    assert "Why it hasn't started" in words(opened(site, f"/jobs/{job_id}"))
    app.jobs.hold(job_id)
    said = words(opened(site, f"/jobs/{job_id}"))
    assert "Why it is held" in said and "An operator holds it" in said and "Held by app" in said


def test_a_failed_job_shows_its_error_with_the_way_to_it(site: Site, app: holdfast.App) -> None:
    job_id = failed(app)
    page = opened(site, f"/jobs/{job_id}?tab=attempts")
    assert "Traceback" in page and "ValueError : no such card" in words(page)
    assert "/errors/" in opened(site, f"/jobs/{job_id}")


def test_a_cancel_asks_first_where_no_script_could(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app)
    page = posted(site, f"/jobs/{job_id}/cancel")
    assert "Cancel this job?" in words(page) and f"/jobs/{job_id}/cancel" in forms(page)
    assert app.jobs.get(job_id).state is JobState.READY
    to, say = acted(site, f"/jobs/{job_id}/cancel", confirmed="yes", reason="a mistake")
    assert (to, say) == (f"/jobs/{job_id}", "The job is cancelled.")
    assert (app.jobs.get(job_id).state, app.jobs.get(job_id).reason) == (JobState.CANCELLED, "a mistake")
    assert "nothing changed" in acted(site, f"/jobs/{job_id}/cancel", confirmed="yes")[1]
    assert [record.reason for record in app.audit.list(action="job.cancel")] == ["a mistake"]


def test_a_failed_job_is_retried_once(site: Site, app: holdfast.App) -> None:
    job_id = failed(app)
    assert "runs again" in acted(site, f"/jobs/{job_id}/retry")[1]
    assert app.jobs.get(job_id).state is JobState.READY
    assert "only a finished job" in acted(site, f"/jobs/{job_id}/retry")[1]
    (record,) = app.audit.list(action="job.retry")
    assert (record.actor, record.target) == ("local", job_id)


def test_hold_release_and_run_now_say_what_they_did(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app, delay=3600)
    path = f"/jobs/{job_id}"
    said = [acted(site, f"{path}/{act}")[1] for act in ("hold", "hold", "release", "release", "run-now", "run-now")]
    assert said == [
        "The job is held.", "The job is already held.", "The job is released.", "The job is not held; nothing changed.",
        "The job is due now.", "The job was already due.",
    ]  # fmt: skip
    assert {record.action for record in app.audit.list()} == {"job.hold", "job.release", "job.run_now"}


def test_priority_and_queue_are_changed(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app)
    path = f"/jobs/{job_id}"
    acted(site, f"{path}/set-priority", priority="9")
    assert "already" in acted(site, f"{path}/set-priority", priority="9")[1]
    acted(site, f"{path}/move", queue="other")
    assert "already" in acted(site, f"{path}/move", queue="other")[1]
    assert "remove" in acted(site, f"{path}/move", queue="a\u202eb")[1]
    job = app.jobs.get(job_id)
    assert (job.priority, job.queue) == (9, "other")
    assert "whole number" in acted(site, f"{path}/set-priority", priority="high")[1]


def test_a_job_is_rescheduled(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app)
    path = f"/jobs/{job_id}"
    assert f"{path}/reschedule" in forms(opened(site, path))
    assert acted(site, f"{path}/reschedule", at="2031-01-01T00:00")[1] == "The job has a new time."
    assert app.jobs.get(job_id).not_before == 1_924_992_000_000_000
    assert acted(site, f"{path}/reschedule", delay="30m", at="")[1] == "The job has a new time."
    assert "either at or delay" in acted(site, f"{path}/reschedule")[1]
    assert "date and a time" in acted(site, f"{path}/reschedule", at="soon")[1]
    assert "Rescheduled by local" in words(opened(site, path))


def test_a_job_is_deleted_after_a_question(site: Site, app: holdfast.App) -> None:
    job_id = failed(app)
    assert "cannot be undone" in words(posted(site, f"/jobs/{job_id}/delete"))
    assert acted(site, f"/jobs/{job_id}/delete", confirmed="yes")[0] == "/jobs"
    with pytest.raises(NotFound):
        app.jobs.get(job_id)
    assert site.call("POST", f"/jobs/{job_id}/delete", data={"confirmed": "yes"}).status_code == 404


def test_a_running_job_is_taken_from_its_worker(site: Site, app: holdfast.App) -> None:
    job_id = taken(app)
    page = opened(site, f"/jobs/{job_id}")
    assert {f"/jobs/{job_id}/cancel", f"/jobs/{job_id}/revoke"} <= set(forms(page))
    assert "Revoke the lease?" in words(posted(site, f"/jobs/{job_id}/revoke"))
    assert "revoked" in acted(site, f"/jobs/{job_id}/revoke", confirmed="yes")[1]
    assert "nothing changed" in acted(site, f"/jobs/{job_id}/revoke", confirmed="yes")[1]


def taken(app: holdfast.App) -> str:
    """A job in the hands of a worker that does not work on it."""
    job_id = enqueue(app)
    worker = app.remote.register("hands", ["default"], ["double"])
    assert len(app.remote.claim(worker.worker)) == 1
    return job_id


def test_a_step_is_shown_with_its_model_and_what_it_used(site: Site, app: holdfast.App) -> None:
    def think(ctx: holdfast.SyncContext) -> None:
        ctx.describe(model="gpt-5", input_tokens=1310, cost=0.002)

    @app.task
    def agent(ctx: holdfast.SyncContext) -> None:
        ctx.step("think", think)

    job = agent.enqueue()
    app.drain()
    assert "gpt-5 · tokens: 1,310 in · cost 0.002" in words(opened(site, f"/jobs/{job.id}?tab=steps"))
    (step,) = site.get(f"/jobs/{job.id}/steps")["items"]
    assert step["attributes"] == {"model": "gpt-5", "input_tokens": 1310, "cost": "0.002"}


def test_steps_are_shown_and_forked_from(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    page = opened(site, f"/jobs/{job_id}?tab=steps")
    assert "gather#1" in words(page) and "facts" in words(page)
    to, say = acted(site, f"/jobs/{job_id}/fork", step="step:gather#1")
    assert to != f"/jobs/{job_id}" and job_id in say
    assert app.jobs.get(to.removeprefix("/jobs/")).task == "report"
    posted(site, f"/jobs/{job_id}/fork", 404, step="nothing")


def test_what_a_job_says_can_be_read_without_script(site: Site, app: holdfast.App) -> None:
    page = opened(site, f"/jobs/{waiting_report(app)}?tab=stream")
    assert "about churn:" in page and "data-cursor" in page and "/stream" in page


def test_artifacts_are_listed_with_their_download(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    page = opened(site, f"/jobs/{job_id}?tab=artifacts")
    href = f"/api/v1/jobs/{job_id}/artifacts/report.md/content"
    assert href in page
    assert site.call("GET", href).content == b"# A report"
    assert href not in opened(site.as_role("viewer"), f"/jobs/{job_id}?tab=artifacts")


def test_a_waitpoint_is_answered_by_a_button(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    assert "Waiting for: approval" in words(opened(site, f"/jobs/{job_id}?tab=signals"))
    assert "Resumed by" in acted(site, f"/jobs/{job_id}/signal", name="approval", kind="boolean", answer="yes")[1]
    app.drain()
    assert app.jobs.get(job_id).result == '"approved"'
    assert "Not sent" in acted(site, f"/jobs/{job_id}/signal", name="approval", kind="boolean", answer="yes")[1]


def test_an_answer_that_does_not_fit_is_refused_with_the_reason(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    assert "Not sent" in acted(site, f"/jobs/{job_id}/signal", name="approval", answer='"maybe"')[1]
    assert "not valid JSON" in acted(site, f"/jobs/{job_id}/signal", name="approval", answer="{")[1]
    assert app.jobs.get(job_id).state is JobState.SUSPENDED


def test_an_operator_lets_a_job_go_on_whatever_it_waits_for(site: Site, app: holdfast.App) -> None:
    job_id = waiting_report(app)
    assert acted(site, f"/jobs/{job_id}/resume", answer="true", reason="by phone")[1] == "Resumed."
    assert "only a suspended job" in acted(site, f"/jobs/{job_id}/resume", answer="true")[1]
    assert [record.reason for record in app.audit.list(action="job.resume")] == ["by phone"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("string", "null", "null"), ("boolean", "no", False), ("json", "", None), ("json", ' {"a": 1}', {"a": 1})],
)
def test_an_answer_is_read_as_it_was_asked_for(kind: str, text: str, value: object) -> None:
    assert read_answer(kind, text) == value


# -- edit and run again


def test_a_job_is_run_again_with_other_arguments(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app, tags=["x"], tenant="acme")
    assert "&#34;n&#34;: 21" in opened(site, f"/jobs/{job_id}?tab=again")
    to, _ = acted(site, f"/jobs/{job_id}/again", arguments='{"n": 4}', queue="other", priority="3", delay="60")
    job = app.jobs.get(to.removeprefix("/jobs/"))
    assert (job.payload, job.queue, job.priority, job.tenant) == ('{"n":4}', "other", 3, "acme")
    assert job.not_before > job.created_at
    assert app.jobs.get(job_id).state is JobState.READY


@pytest.mark.parametrize(
    ("arguments", "named"),
    [('{"n": "four"}', "n"), ("{", "not valid JSON"), ("4", "object"), ('{"m": 1}', "m"), ('{"n": NaN}', "NaN")],
)
def test_arguments_that_the_task_does_not_take_are_refused_in_the_form(
    site: Site, app: holdfast.App, arguments: str, named: str
) -> None:
    job_id = enqueue(app)
    page = posted(site, f"/jobs/{job_id}/again", 422, arguments=arguments)
    assert named in words(page) and "field-error" in page
    assert len(app.jobs.find()) == 1


def test_a_task_that_this_program_does_not_know_is_not_run_again(site: Site, app: holdfast.App) -> None:
    job_id = app.external_task("foreign").enqueue().id
    assert "Unknown task" in words(opened(site, f"/jobs/{job_id}?tab=again"))
    posted(site, f"/jobs/{job_id}/again", 422, arguments="{}")
    acted(site.with_settings(any_task=True), f"/jobs/{job_id}/again", arguments="{}")


# -- others


def test_another_tenants_job_is_not_there(site: Site, app: holdfast.App) -> None:
    job_id = enqueue(app, tenant="acme")
    globex = site.as_role("operator", tenant="globex")
    opened(globex, f"/jobs/{job_id}", 404)
    for act in ("cancel", "hold", "delete"):
        assert globex.call("POST", f"/jobs/{job_id}/{act}", data={"confirmed": "yes"}).status_code == 404
    opened(site.as_role("operator", tenant="acme"), f"/jobs/{job_id}")


def test_hostile_texts_stay_text_on_every_tab(site: Site, app: holdfast.App) -> None:
    job_id = app.declare(HOSTILE).options(tags=[HOSTILE], tenant=HOSTILE).enqueue(x=HOSTILE).id
    app.jobs.hold(job_id, actor=HOSTILE, reason=HOSTILE)
    broken = failed(app, HOSTILE)
    for one in (job_id, broken):
        for tab in TABS:
            page = opened(site, f"/jobs/{one}?tab={tab}")
            assert "<img" not in page and "49" not in page.partition(HOSTILE[-9:])[0][-9:]


def test_an_id_with_a_slash_has_a_page(site: Site, app: holdfast.App) -> None:
    enqueue(app, id="orders/17?x=1")
    assert "/jobs/orders%2F17%3Fx%3D1" in opened(site, "/jobs")
    assert "orders/17" in words(opened(site, "/jobs/orders%2F17%3Fx%3D1"))
    assert "held" in acted(site, "/jobs/orders%2F17%3Fx%3D1/hold")[1]


def test_what_can_be_done_follows_from_the_state(app: holdfast.App) -> None:
    job = app.jobs.get(enqueue(app))
    assert offered(job) == ["hold", "cancel", "reschedule", "set-priority", "move", "delete"]
    assert offered(replace(job, due=0)) == ["run-now", "hold", "cancel", "reschedule", "set-priority", "move", "delete"]
    assert offered(replace(job, state=JobState.FAILED)) == ["retry", "retry", "delete"]
    running = replace(job, state=JobState.RUNNING, owner="w")
    assert offered(running) == ["cancel", "cancel", "revoke"]
    assert offered(replace(job, state=JobState.SUSPENDED)) == ["cancel", "set-priority"]
    held = replace(job, state=JobState.BLOCKED, reason="operator")
    assert offered(held) == ["release", "run-now", "cancel", "reschedule", "set-priority", "move", "delete"]
    waiting = replace(job, state=JobState.BLOCKED, reason="dependencies")
    assert offered(waiting) == ["cancel", "set-priority", "move", "delete"]


def offered(job: JobRecord) -> list[str]:
    acts = acts_of(job)
    return [one.slug for one in (*acts.buttons, *acts.menu)]


def test_the_timeline_is_in_order_and_ends_with_what_is_to_come(app: holdfast.App) -> None:
    job = app.jobs.get(enqueue(app))
    now = job.created_at + 100 * SECOND
    later = replace(job, reason="retry", not_before=now + 60 * SECOND, deadline=now + 90 * SECOND)
    run = Attempt(1, 0, 1, "timeout", "w", job.created_at + SECOND, job.created_at + 9 * SECOND, None)
    items = timeline_of(later, [run], [], now)
    assert [item["what"] for item in items] == ["Enqueued", "Attempt 1 timed out", "Next attempt", "Deadline"]
    assert items[1]["length"] == 8 * SECOND
    assert [bool(item.get("future")) for item in items] == [False, False, True, True]


def test_a_parked_job_shows_the_words_it_was_parked_with(site: Site, app: holdfast.App) -> None:
    @app.task
    def park() -> None:
        raise holdfast.Park("the API key was revoked")

    job = park.enqueue()
    app.drain()
    assert "It is blocked: auth: the API key was revoked" in words(opened(site, f"/jobs/{job.id}"))
