"""`holdfast jobs enqueue`."""

from __future__ import annotations

import json

from holdfast import App

from .kit import Run, answer


def test_a_job_is_enqueued_with_its_arguments_and_options(run: Run, app: App) -> None:
    job_id = answer(
        run("jobs", "enqueue", "mail", "--args", '{"to": "ada"}', "--queue", "q", "--delay", "2h", "--json")
    )
    job = app.jobs.get(job_id["id"])
    assert (job.task, json.loads(job.payload), job.queue, str(job.state)) == ("mail", {"to": "ada"}, "q", "ready")


def test_the_same_id_or_key_stores_one_job(run: Run, app: App) -> None:
    for options in (["--id", "mine"], ["--key", "k"]):
        assert answer(run("jobs", "enqueue", "mail", *options, "--json"))["created"] is True
        assert answer(run("jobs", "enqueue", "mail", *options, "--json"))["created"] is False
    assert len(app.jobs.find()) == 2


def test_wrong_arguments_say_what_to_write_and_store_nothing(run: Run, app: App) -> None:
    for wrong in ("nonsense", "3"):
        result = run("jobs", "enqueue", "mail", "--args", wrong)
        assert result.exit_code == 2
        assert '\'{"user": "Ada"}\'' in result.stderr
    assert app.jobs.find() == []


def test_a_wait_that_nobody_ends_is_an_error_that_names_the_job(run: Run, app: App) -> None:
    result = run("jobs", "enqueue", "mail", "--wait", "0")
    assert result.exit_code == 1
    assert app.jobs.find()[0].id in result.stderr


def test_jobs_that_ended_lately_are_listed_those_that_ended_last_first(run: Run, app: App) -> None:
    first, second = (answer(run("jobs", "enqueue", "mail", "--delay", wait, "--json"))["id"] for wait in ("1h", "2h"))
    for job_id in (second, first):
        app.jobs.cancel(job_id)
    listed = answer(run("jobs", "list", "--ended-since", "1h", "--limit", "1", "--json"))
    rest = answer(run("jobs", "list", "--ended-since", "1h", "--before", listed["next"], "--json"))
    assert [[job["id"] for job in page["jobs"]] for page in (listed, rest)] == [[first], [second]]
    assert "ended" in run("jobs", "list", "--ended-since", "1h").stdout.splitlines()[0]
    assert answer(run("jobs", "list", "--ended-before", "1h", "--json"))["jobs"] == []
    wrong = run("jobs", "list", "--ended-since", "1h", "--before", first)
    assert (wrong.exit_code, "start without it" in wrong.stderr) == (2, True)


def test_the_job_shows_who_enqueued_it_and_is_found_by_that(run: Run, app: App) -> None:
    mine = answer(run("jobs", "enqueue", "mail", "--actor", "bob", "--json"))["id"]
    answer(run("jobs", "enqueue", "mail", "--json"))
    assert answer(run("jobs", "show", mine, "--json"))["jobs"][0]["created_by"] == "bob"
    assert "created by  bob" in run("jobs", "show", mine).stdout
    found = answer(run("jobs", "list", "--created-by", "bob", "--json"))["jobs"]
    assert [job["id"] for job in found] == [mine]
    assert {job.created_by for job in app.jobs.find()} == {"ada", "bob"}


def test_the_attempts_from_before_a_retry_are_shown_in_the_total(run: Run, app: App) -> None:
    app.task(name="quick")(lambda: None)
    job_id = answer(run("jobs", "enqueue", "quick", "--json"))["id"]
    app.drain()
    assert "total attempts" not in run("jobs", "show", job_id).stdout
    run("jobs", "retry", job_id)
    app.drain()
    shown = answer(run("jobs", "show", job_id, "--json"))["jobs"][0]
    assert (shown["attempts"], shown["total_attempts"]) == (1, 2)
    assert "total attempts  2" in run("jobs", "show", job_id).stdout
