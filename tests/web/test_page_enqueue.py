"""The form that enqueues a job."""

from __future__ import annotations

import json

import holdfast

from .page_kit import opened, posted, words
from .web_kit import Site


def test_a_job_is_enqueued_from_the_form(site: Site, app: holdfast.App) -> None:
    assert "Enqueue a job" in words(opened(site, "/jobs"))
    assert "double" in opened(site, "/enqueue")
    posted(site, "/enqueue", 303, task="double", arguments='{"n": 21}', queue="q", priority="3", delay="2h")
    (job,) = app.jobs.find()
    assert (job.task, json.loads(job.payload), job.queue, job.priority) == ("double", {"n": 21}, "q", 3)


def test_what_is_wrong_is_said_and_what_was_written_stays(site: Site, app: holdfast.App) -> None:
    form = {"task": "double", "arguments": '{"m": 1}', "queue": "q"}
    answer = site.call("POST", "/enqueue", data=form)
    assert answer.status_code == 422
    assert "Nothing was enqueued" in answer.text and "&#34;m&#34;" in answer.text
    assert app.jobs.find() == []


def test_a_viewer_may_not(site: Site) -> None:
    viewer = site.as_role("viewer")
    assert viewer.call("GET", "/enqueue").status_code == 403
    assert "Enqueue a job" not in opened(viewer, "/jobs")


def test_a_task_that_this_program_lacks_is_refused_in_the_same_words_everywhere(site: Site, app: holdfast.App) -> None:
    said = "task 'nobody'; GET /api/v1/tasks lists the known ones"
    assert said in site.refused("POST", "/jobs", {"task": "nobody"})[1]
    assert said in site.refused("POST", "/schedules", {"name": "s", "task": "nobody", "every": 60})[1]
    assert said in words(posted(site, "/enqueue", 422, task="nobody"))
    assert said in words(posted(site, "/schedules", 422, name="s", task="nobody", every="60"))


def test_a_site_that_takes_any_task_schedules_it_too_and_refuses_no_name(site: Site, app: holdfast.App) -> None:
    open_site = site.with_settings(any_task=True)
    posted(open_site, "/schedules", 303, name="s", task=" nobody ", every="60")
    assert app.schedules.get("s").task == "nobody"
    assert "task's name is empty" in words(posted(open_site, "/schedules", 422, name="t", task="", every="60"))
