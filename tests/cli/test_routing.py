"""Where jobs may run, at the command line."""

from __future__ import annotations

from typing import Any

from holdfast import App
from holdfast.clock import SECOND
from holdfast.model.workers import WorkerSpec
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op

from .kit import Run, answer, fill


def register(app: App, name: str, **fields: Any) -> None:
    spec = WorkerSpec(
        id=name, name=name, host="h", pid=1, process_key="p", queues=("mail", "default"), tasks=("mail",),
        concurrency=10, version="1", lease=300 * SECOND, **fields,
    )  # fmt: skip
    app.open().write(Op(lambda tx: workers.register(tx, spec)))


def test_a_job_is_granted_and_the_grant_withdrawn(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    done = run("jobs", "grant", job_id, "--worker", "gpu-1", "--expires", "5m", "--reason", "warm", "--json")
    assert answer(done)["results"] == [{"id": job_id, "outcome": "granted"}]
    (found,) = answer(run("jobs", "grants", "--json"))["grants"]
    assert (found["job"], found["worker"], found["expired"]) == (job_id, "gpu-1", False)
    assert "gpu-1" in run("jobs", "grants").output
    assert "granted: it is granted to worker 'gpu-1'" in run("jobs", "explain", job_id).output
    assert answer(run("jobs", "withdraw", job_id, "--json"))["results"][0]["outcome"] == "withdrawn"
    assert "was not granted" in run("jobs", "withdraw", job_id).output
    assert "no grants" in run("jobs", "grants").output
    actions = [(record.action, record.reason) for record in app.audit.list()]
    assert actions == [("job.withdraw", ""), ("job.grant", "warm")]


def test_a_grant_that_cannot_be_is_refused(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    assert run("jobs", "grant", job_id).exit_code == 2
    assert run("jobs", "grant", "nothing", "--worker", "w").exit_code == 3
    app.jobs.cancel(job_id)
    assert run("jobs", "grant", job_id, "--worker", "w").exit_code == 4


def test_lists_warn_of_jobs_that_nobody_can_run(app: App, run: Run) -> None:
    register(app, "plain")
    (good,), (bad,) = fill(app, 1), fill(app, 1, requires=["quantum"])
    listed = {job["id"]: job["unrunnable"] for job in answer(run("jobs", "list", "--json"))["jobs"]}
    assert listed[good] is None
    assert listed[bad]["code"] == "capability_missing"
    assert "1 of these cannot run" in run("jobs", "list").output
    (stranded,) = answer(run("queues", "list", "--json"))["stranded"]
    assert (stranded["job"], stranded["code"]) == (bad, "capability_missing")
    assert "quantum" in run("queues", "list").output


def test_workers_show_what_they_have(app: App, run: Run) -> None:
    register(app, "gpu-1", capabilities=("gpu",), resident=("llama-70b",), versions={"mail": "2.1"})
    (found,) = answer(run("workers", "list", "--json"))["workers"]
    assert (found["capabilities"], found["resident"], found["versions"]) == (["gpu"], ["llama-70b"], {"mail": "2.1"})


def test_a_queue_with_a_total_that_nobody_serves_is_told_by_the_list_and_the_doctor(app: App, run: Run) -> None:
    app.limits.set_total("ghost", 5)
    (found,) = answer(run("queues", "list", "--json"))["stranded"]
    assert (found["queue"], found["job"]) == ("ghost", None)
    assert "warning: queue ghost: no worker is alive" in run("queues", "list").output
    assert "queues: ghost: no worker is alive" in run("doctor").output
