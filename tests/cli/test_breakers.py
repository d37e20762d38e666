"""Circuit breakers at the command line."""

from __future__ import annotations

from holdfast import App

from .kit import Run, answer


def test_a_breaker_is_made_tripped_reset_and_removed_and_it_is_recorded(app: App, run: Run) -> None:
    assert answer(run("breakers", "set", "stripe", "--failures", "3", "--open-for", "2m", "--json")) == {
        "scope": "stripe", "failures": 3, "open_for": 120.0,
    }  # fmt: skip
    tripped = answer(run("breakers", "trip", "stripe", "--for", "1h", "--reason", "maintenance", "--json"))
    assert (tripped["state"], tripped["threshold"], tripped["openings"]) == ("open", 3, 1)
    assert "open for 36" in run("breakers", "list").output
    assert "breaker:stripe" in run("limits", "list").output
    assert answer(run("limits", "list", "--json"))["breakers"][0]["state"] == "open"
    assert "breaker stripe is closed" in run("breakers", "reset", "stripe").output
    assert [one["state"] for one in answer(run("breakers", "list", "--json"))["breakers"]] == ["closed"]
    assert answer(run("breakers", "clear", "stripe", "--json")) == {"removed": True}
    assert answer(run("breakers", "clear", "stripe", "--json")) == {"removed": False}
    records = app.audit.list(target_kind="breaker")
    assert [record.action for record in reversed(records)] == [
        "breaker.set", "breaker.trip", "breaker.reset", "breaker.clear",
    ]  # fmt: skip
    assert {(record.actor, record.target) for record in records} == {("ada", "stripe")}
    assert records[2].reason == "maintenance"


def test_a_breaker_that_is_not_there_or_makes_no_sense_is_refused(run: Run) -> None:
    assert run("breakers", "trip", "nobody").exit_code == 3
    assert run("breakers", "reset", "nobody").exit_code == 3
    assert run("breakers", "set", "stripe", "--failures", "0").exit_code == 2
    assert run("breakers", "set", "stripe", "--open-for", "0").exit_code == 2


def test_the_doctor_tells_of_a_breaker_that_jobs_wait_for_and_nobody_declared(app: App, run: Run) -> None:
    @app.task(breaker="strpie")
    def pay() -> None: ...

    job = pay.enqueue()
    app.drain()
    found = run("doctor")
    assert found.exit_code == 1
    assert f"there is no breaker 'strpie', and job {job.id} of task pay waits for it; correct the name" in found.output
    app.breakers.set("strpie", failures=3, open_for=60)
    assert "strpie" not in run("doctor").output
