"""Operators at the command line: queues, many jobs at once, the audit."""

from __future__ import annotations

import pytest

from holdfast import App

from .kit import Run, answer, fill


@pytest.mark.parametrize(
    ("verb", "state"), [("pause", "paused"), ("drain", "draining"), ("disable", "disabled"), ("resume", "active")]
)
def test_a_queue_is_opened_and_closed_and_it_is_recorded(app: App, run: Run, verb: str, state: str) -> None:
    assert answer(run("queues", verb, "mail", "--reason", "night", "--json")) == {
        "queues": [{"name": "mail", "state": state}]
    }
    assert app.queues.get("mail").state == state
    (record,) = app.audit.list()
    assert (record.actor, record.action, record.target, record.reason) == ("ada", f"queue.{verb}", "mail", "night")


def test_settings_are_given_as_people_write_them_and_taken_back(app: App, run: Run) -> None:
    policy = '{"kind": "fixed", "initial": 5}'
    set_ = run("queues", "set", "mail", "--keep-failed", "30d", "--timeout", "90s", "--retry", policy, "--json")
    found = answer(set_)
    assert (found["keep_failed"], found["timeout"], found["retry"]["kind"]) == (30 * 86_400, 90, "fixed")
    assert answer(run("queues", "show", "mail", "--json")) == found
    again = answer(run("queues", "set", "mail", "--timeout", "default", "--json"))
    assert (again["timeout"], again["keep_failed"]) == (None, 30 * 86_400)
    assert "30d" in run("queues", "show", "mail").output


def test_a_cap_is_set_and_taken_back(app: App, run: Run) -> None:
    assert answer(run("queues", "set", "mail", "--cap", "5000", "--json"))["cap"] == 5_000
    assert "5,000" in run("queues", "show", "mail").output
    assert app.queues.get("mail").cap == 5_000
    assert answer(run("queues", "set", "mail", "--cap", "default", "--json"))["cap"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("queues", "set", "mail"),
        ("queues", "set", "mail", "--keep-failed", "soon"),
        ("queues", "set", "mail", "--timeout", "0"),
        ("queues", "set", "mail", "--cap", "-1"),
        ("queues", "set", "mail", "--cap", "some"),
        ("queues", "set", "mail", "--retry", '{"kind": "odd"}'),
        ("queues", "pause", "a,b"),
        ("queues", "drain", "right\u202eleft"),
        ("jobs", "retry"),
        ("jobs", "delete", "--filter", "colour=red"),
        ("jobs", "delete", "--filter", "state=odd"),
        ("jobs", "delete", "--filter", "failed"),
        ("jobs", "delete", "--filter", "queue=a", "--filter", "queue=b"),
        ("jobs", "delete", "--filter", "queue=a", "--all"),
        ("jobs", "cancel", "some-id", "--filter", "queue=a"),
        ("jobs", "set-priority", "--filter", "queue=a"),
        ("jobs", "set-priority", "--filter", "queue=a", "--to", "99999"),
        ("jobs", "move", "--all", "--to", "a b"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(app: App, run: Run, words: tuple[str, ...]) -> None:
    fill(app)
    assert run(*words).exit_code == 2
    assert [count.state for count in app.jobs.counts()] == ["ready"]
    assert app.audit.list() == []


def test_a_dry_run_says_what_would_become_of_them(app: App, run: Run) -> None:
    fill(app)
    found = answer(run("jobs", "cancel", "--filter", "queue=mail", "--dry-run", "--json"))
    assert (found["dry_run"], found["chosen"], found["counts"]) == (True, 3, {"cancelled": 3})
    assert "nothing was changed" in run("jobs", "cancel", "--filter", "queue=mail", "--dry-run").output
    assert app.audit.list() == []


def test_dead_letters_are_cancelled_retried_and_drained_by_filter(app: App, run: Run) -> None:
    fill(app, 3)
    assert answer(run("jobs", "cancel", "--filter", "state=ready", "--json"))["counts"] == {"cancelled": 3}
    assert answer(run("jobs", "retry", "--filter", "state=cancelled", "--json"))["counts"] == {"retried": 3}
    run("jobs", "cancel", "--all")
    assert answer(run("jobs", "delete", "--older-than", "1h", "--json"))["chosen"] == 0
    assert answer(run("jobs", "delete", "--older-than", "0", "--reason", "tidy", "--json"))["counts"] == {"deleted": 3}
    assert app.jobs.counts() == []
    assert app.audit.list()[0].reason == "tidy"


def test_jobs_are_held_released_moved_and_ranked(app: App, run: Run) -> None:
    ids = fill(app)
    assert answer(run("jobs", "hold", ids[0], "--json"))["results"] == [{"id": ids[0], "outcome": "held"}]
    assert answer(run("jobs", "hold", ids[0], "--json"))["results"] == [{"id": ids[0], "outcome": "already"}]
    assert run("jobs", "hold", "nobody").exit_code == 3
    assert answer(run("jobs", "release", "--filter", "state=blocked", "--json"))["changed"] == 1
    assert answer(run("jobs", "move", "--filter", "queue=mail", "--to", "bulk", "--json"))["changed"] == 3
    assert answer(run("jobs", "set-priority", "--all", "--to", "-3", "--json"))["changed"] == 3
    assert {(job.queue, job.priority) for job in app.jobs.find()} == {("bulk", -3)}


def test_an_action_on_one_named_job_is_recorded_under_its_id(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1, delay=60)
    for words in (("run-now",), ("cancel", "--reason", "wrong"), ("retry",), ("delete",)):
        assert run("jobs", words[0], job_id, *words[1:]).exit_code == 0
    found = answer(run("audit", "list", "--kind", "job", "--target", job_id, "--json"))["records"]
    assert [record["action"] for record in found] == ["job.delete", "job.retry", "job.cancel", "job.run_now"]
    assert (found[2]["actor"], found[2]["reason"]) == ("ada", "wrong")


def test_the_audit_is_shown_page_by_page(app: App, run: Run) -> None:
    for queue in "abc":
        app.queues.pause(queue)
    first = answer(run("audit", "list", "--limit", 2, "--json"))
    assert [record["target"] for record in first["records"]] == ["c", "b"]
    rest = answer(run("audit", "list", "--limit", 2, "--before", first["next"], "--json"))
    assert ([record["target"] for record in rest["records"]], rest["next"]) == (["a"], None)
    assert "queue.pause" in run("audit", "list").output


def test_lists_tell_how_long_the_oldest_job_has_waited(app: App, run: Run) -> None:
    fill(app)
    (queue,) = answer(run("queues", "list", "--json"))["queues"]
    assert queue["jobs"] == {"ready": 3}
    assert queue["oldest_due"] >= 0
    assert queue["estimated"] == []
