"""Work in progress at the command line: revoke, retry, hold, and workers that are declared dead."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App
from holdfast.clock import SECOND
from holdfast.model.routing import Route
from holdfast.model.workers import WorkerSpec
from holdfast.storage.ops.jobs import claims
from holdfast.storage.ops.jobs.claims import ClaimRequest, encode_routes
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op

from .kit import Run, answer, fill


def start(app: App, worker_id: str = "w1", lease: int = 30 * SECOND) -> list[Any]:
    """A worker that has claimed everything, and says nothing more."""
    spec = WorkerSpec(
        id=worker_id, name=worker_id, host="h", pid=1, process_key="p", queues=("mail",), tasks=("mail",),
        concurrency=10, version="1", lease=lease,
    )  # fmt: skip
    app.open().write(Op(lambda tx: workers.register(tx, spec)))
    wanted = ClaimRequest(owner=worker_id, token="c1", routes=encode_routes([[Route("mail")]]), n=10)
    return app.open().write(Op(lambda tx: claims.claim(tx, wanted)))


def test_a_running_job_is_taken_from_its_worker(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    (claimed,) = start(app)
    other = run("jobs", "revoke", job_id, "--owner", "w2", "--json")
    assert answer(other, 4) == {"results": [{"id": job_id, "outcome": "different_owner"}]}
    moved = run("jobs", "revoke", job_id, "--epoch", claimed.epoch + 1, "--json")
    assert answer(moved, 4)["results"][0]["outcome"] == "epoch_moved"
    done = run("jobs", "revoke", job_id, "--owner", "w1", "--epoch", claimed.epoch, "--reason", "stuck", "--json")
    assert answer(done)["results"] == [{"id": job_id, "outcome": "revoked"}]
    assert answer(run("jobs", "revoke", job_id, "--json"))["results"][0]["outcome"] == "no_active_lease"
    assert "is not running" in run("jobs", "revoke", job_id).output
    (record,) = app.audit.list()
    assert (record.actor, record.action, record.target, record.reason) == ("ada", "job.revoke", job_id, "stuck")


def test_a_cancel_can_be_meant_for_one_run_only(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    (claimed,) = start(app)
    moved = run("jobs", "cancel", job_id, "--force", "--epoch", claimed.epoch + 1, "--json")
    assert answer(moved, 4)["results"][0]["outcome"] == "epoch_moved"
    asked = answer(run("jobs", "cancel", job_id, "--owner", "w1", "--json"))
    assert asked["results"][0]["outcome"] == "cancel_requested"
    assert run("jobs", "cancel", "--all", "--epoch", 1).exit_code == 2


def test_a_finished_job_is_retried_until_it_was_ten_times(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    app.jobs.cancel(job_id)
    for _ in range(10):
        assert answer(run("jobs", "retry", job_id, "--fresh", "--json"))["results"][0]["outcome"] == "retried"
        app.jobs.cancel(job_id)
    refused = answer(run("jobs", "retry", job_id, "--json"), 4)
    assert refused["results"][0]["error"]["code"] == "illegal_move"


def test_holding_again_says_that_it_is_so(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    outcomes = [
        answer(run("jobs", verb, job_id, "--json"))["results"][0]["outcome"]
        for verb in ("hold", "hold", "release", "release")
    ]
    assert outcomes == ["held", "already", "released", "already"]


def test_what_cannot_be_held_or_released_is_told_why_and_what_to_do(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    start(app)
    refused = run("jobs", "hold", job_id)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr.startswith(f"error: job {job_id} is running; only a ready job can be held; to stop it:")
    app.jobs.cancel(job_id, force=True)
    assert f"error: job {job_id} is cancelled (cancelled); only a held job" in run("jobs", "release", job_id).stderr
    missing = run("jobs", "hold", "nobody")
    assert (missing.exit_code, missing.stderr.partition(";")[0]) == (3, "error: no job 'nobody'")
    assert run("jobs", "hold", "nobody", job_id).exit_code == 3, "that of the first"
    assert [record.action for record in app.audit.list()] == ["job.cancel"], "that of the test itself"


def test_a_repeated_action_says_what_is_so_and_is_recorded_once(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    said = [run("jobs", *words).output.removeprefix(f"{job_id} ").strip() for words in (
        ("hold", job_id), ("hold", job_id), ("set-priority", job_id, "--to", 7), ("set-priority", job_id, "--to", 7),
        ("release", job_id), ("release", job_id), ("cancel", job_id), ("cancel", job_id),
    )]  # fmt: skip
    assert said[:4] == ["is held", "is already held", "has the new priority", "has that priority already"]
    assert said[4:] == [
        "is released", "is not held; nothing changed", "is cancelled", "had already finished; nothing changed",
    ]  # fmt: skip
    told = [record.action for record in reversed(app.audit.list())]
    assert told == ["job.hold", "job.set_priority", "job.release", "job.cancel"]
    assert [event.kind for event in app.events.read(kinds="operator")] == [f"operator.{action}" for action in told]


def test_expired_leases_are_listed_and_a_worker_is_declared_dead(app: App, run: Run) -> None:
    ids = sorted(fill(app, 3))
    start(app, lease=1)
    first = answer(run("workers", "leases", "--limit", 2, "--json"))
    rest = answer(run("workers", "leases", "--after", first["next"], "--json"))
    assert [lease["job"] for lease in first["leases"] + rest["leases"]] == ids
    assert {lease["worker"] for lease in first["leases"]} == {"w1"}
    assert ids[0] in run("workers", "leases").output
    assert answer(run("workers", "dead", "w1", "--reason", "on fire", "--json")) == {
        "worker": "w1", "rescued": 3, "again": False,
    }  # fmt: skip
    assert answer(run("workers", "dead", "w1", "--reason", "on fire", "--json"))["again"] is True
    assert answer(run("workers", "leases", "--json")) == {"leases": [], "next": None}
    assert app.workers.list() == []
    (record,) = app.audit.list()
    assert (record.action, record.target, record.reason) == ("worker.dead", "w1", "on fire")
    assert record.after["rescued"] == 3


@pytest.mark.parametrize("reason", ["", "x" * 300, "a\tb"])
def test_the_reason_for_a_dead_worker_must_be_readable(app: App, run: Run, reason: str) -> None:
    start(app)
    assert run("workers", "dead", "w1", "--reason", reason).exit_code == 2


def test_a_worker_that_nobody_knows_is_not_found(run: Run) -> None:
    assert run("workers", "dead", "nobody", "--reason", "gone").exit_code == 3


def test_a_waiting_job_is_rescheduled(app: App, run: Run) -> None:
    ids = fill(app, 2)
    done = run("jobs", "reschedule", *ids, "--delay", "30m", "--json")
    assert answer(done)["results"] == [{"id": job_id, "outcome": "rescheduled"} for job_id in ids]
    assert {job.due for job in app.jobs.find()} == {0}
    at = run("jobs", "reschedule", ids[0], "--at", "2020-01-01T00:00:00+00:00")
    assert (at.exit_code, at.stdout) == (0, f"{ids[0]} has a new time\n")
    assert [job.id for job in app.jobs.find() if job.due == 1] == [ids[0]]
    report = answer(run("jobs", "reschedule", "--filter", "label=delayed", "--delay", "1h", "--json"))
    assert (report["changed"], report["counts"]) == (1, {"rescheduled": 1})
    start(app)
    refused = run("jobs", "reschedule", ids[0], "--delay", "1h")
    assert (refused.exit_code, "only a ready or held job" in refused.stderr) == (4, True)


@pytest.mark.parametrize(
    "when", [(), ("--at", "soon"), ("--at", "2030-01-01T00:00"), ("--at", "2030-01-01T00:00Z", "--delay", "1h")]
)
def test_a_new_time_must_be_clear(app: App, run: Run, when: tuple[str, ...]) -> None:
    (job_id,) = fill(app, 1)
    assert run("jobs", "reschedule", job_id, *when).exit_code in (2,)
    assert app.audit.list() == []
