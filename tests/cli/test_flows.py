"""Flows at the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import App, Flow

from .kit import Run, answer


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)

    @app.task(max_attempts=1)
    def work(n: int) -> int:
        return 1 // n

    app.migrate()
    yield app
    app.close()


@pytest.fixture
def flow(app: App) -> Flow:
    """A member that fails, one that is skipped for it, one that tells, and one that has nothing to do with it."""
    work = app.tasks["work"]
    with app.flow('a "quoted" name') as flow:
        bad = flow.add(work.job(0), name="bad")
        flow.add(work.job(bad.output), name="behind")
        flow.add(work.job(1), after=bad.failed, name="told")
        flow.add(work.job(1), name="apart")
    return flow


def test_flows_are_listed_by_state_and_name(app: App, run: Run, flow: Flow) -> None:
    assert run("flows", "list").output.splitlines()[1].split()[0] == flow.id
    app.drain()
    assert [f["state"] for f in answer(run("flows", "list", "--json"))["flows"]] == ["failed"]
    assert answer(run("flows", "list", "--state", "running", "--json")) == {"flows": [], "next": None}
    assert len(answer(run("flows", "list", "--name", flow.name, "--limit", "1", "--json"))["flows"]) == 1
    assert answer(run("flows", "list", "--name", "other", "--json"))["flows"] == []
    assert answer(run("flows", "list", "--before", flow.id, "--json"))["flows"] == []


def test_a_flow_shows_its_members_and_what_they_wait_for(app: App, run: Run, flow: Flow) -> None:
    app.drain()
    shown = answer(run("flows", "show", flow.id, "--json"))
    assert shown["counts"] == {"failed": 1, "skipped": 1, "succeeded": 2}
    assert {(e["from"], e["to"], e["on"], e["met"]) for e in shown["edges"]} == {
        ("bad", "behind", "success", False),
        ("bad", "told", "failure", True),
    }
    printed = run("flows", "show", flow.id).output
    assert "2 succeeded, 1 failed, 1 skipped" in printed
    assert "bad (failure)" in printed


def test_the_graph_is_drawn_in_three_ways(app: App, run: Run, flow: Flow) -> None:
    app.drain()
    lines = run("flows", "graph", flow.id).output.splitlines()
    assert lines == [
        f'a "quoted" name  {flow.id}  failed',
        "✗ bad  failed",
        "✓ apart  succeeded",
        "  - behind  skipped  ← bad",
        "  ✓ told  succeeded  ← bad (failure)",
    ]
    dot = run("flows", "graph", flow.id, "--format", "dot").output
    assert f'"{flow["bad"].id}" -> "{flow["told"].id}" [label=failure];' in dot
    mermaid = run("flows", "graph", flow.id, "--format", "mermaid").output
    assert mermaid.startswith("flowchart LR\n") and "-- failure -->" in mermaid
    assert len(answer(run("flows", "graph", flow.id, "--json"))["members"]) == 4


def test_a_cancel_says_how_far_it_went_and_is_recorded(app: App, run: Run, flow: Flow) -> None:
    done = answer(run("flows", "cancel", flow.id, "--reason", "night", "--wait", "5", "--json"))
    (told,) = done["flows"]
    assert len(told.pop("members")) == 4
    assert told == {
        "id": flow.id,
        "policy": "cancel_all",
        "reason": "night",
        "again": False,
        "changed": True,
        "state": "cancelled",
    }
    (record,) = app.audit.list()
    assert (record.actor, record.action, record.target, record.reason) == ("ada", "flow.cancel", flow.id, "night")


def test_a_cancel_that_is_waited_for_in_vain_is_code_1(app: App, run: Run) -> None:
    work = app.tasks["work"]
    with app.flow("slow") as flow:
        first = flow.add(work.options(delay=60).job(1))
        flow.add(work.job(first.output))
    done = answer(run("flows", "cancel", flow.id, "--policy", "flow_only", "--wait", "0.01", "--json"), code=1)
    assert done["flows"][0]["state"] == "running"


def test_the_failed_part_is_retried_or_one_member_replayed(app: App, run: Run, flow: Flow) -> None:
    app.drain()
    again = answer(run("flows", "retry", flow.id, "--json"))
    assert set(again["jobs"]) >= {flow["bad"].id, flow["behind"].id}
    app.drain()
    only = answer(run("flows", "retry", flow.id, "--member", "apart", "--only", "--json"))
    assert only["jobs"] == [flow["apart"].id]
    assert run("flows", "retry", flow.id, "--member", "nobody").exit_code == 3
    assert {record.action for record in app.audit.list()} == {"flow.retry", "flow.retry_member"}


def test_a_join_is_changed_while_its_member_waits(app: App, run: Run) -> None:
    work = app.tasks["work"]
    with app.flow("votes") as flow:
        flow.add(work.job(1), name="last", after=[flow.add(work.job(1)), flow.add(work.job(0))])
    words = ("flows", "set-join", flow.id, "last", "--needs", "quorum", "--needed", "1")
    assert run(*words).output == "member last now needs 1 of 2 dependencies; it is blocked\n"
    assert answer(run(*words, "--json")) == {
        "id": flow.id, "job": flow["last"].id, "needs": "quorum", "needed": 1, "rest": "run", "upstreams": 2,
        "state": "blocked", "changed": False,
    }  # fmt: skip
    assert run("flows", "set-join", flow.id, "last", "--needs", "quorum", "--needed", "3").exit_code == 2
    app.drain()
    late = run("flows", "set-join", flow.id, "last", "--needs", "all")
    assert "its join has fired" in late.output
    assert late.exit_code == run("jobs", "run-now", flow["last"].id).exit_code
    assert run("flows", "set-join", flow.id, "nobody", "--needs", "all").exit_code == 3
    assert [(record.actor, record.action) for record in app.audit.list()] == [("ada", "flow.set_join")]


def test_a_flow_that_is_not_there_is_code_3(run: Run, flow: Flow) -> None:
    for words in (("show", "x"), ("graph", "x"), ("cancel", "x"), ("retry", "x")):
        assert run("flows", *words).exit_code == 3
    assert run("flows", "cancel", flow.id, "--policy", "everything").exit_code == 2


def test_a_job_says_which_flow_it_belongs_to(run: Run, flow: Flow) -> None:
    (shown,) = answer(run("jobs", "show", flow["bad"].id, "--json"))["jobs"]
    assert (shown["flow"], shown["member"]) == (flow.id, "bad")
    assert f"{flow.id}, as bad" in run("jobs", "show", flow["bad"].id).output
