"""The workers: current jobs, expired leases, and jobs that no worker can run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.actions import Lease
from ...model.answers import JobFilter
from ...model.jobs import JobRecord, JobState
from ...model.routing import Stranded
from ...model.stats import Vitals, WorkerStats
from ...model.workers import WorkerInfo
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Nothing, ask, back_at
from .frame import Done, Page
from .templates import below

group = Group("Workers", kind="page")

_WHAT: Final = "the workers"
_RUNNING: Final = 500
_LEASES: Final = 50
_STRANDED: Final = 20
_JOBS: Final = 3
_REASON: Final = 256
_TONES: Final = {"alive": "good", "stopping": "info", "lost": "bad", "dead": "plain"}
_ORDER: Final = ("alive", "stopping", "lost", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker in the list."""

    worker: WorkerInfo
    state: str
    tone: str
    vitals: Vitals | None
    running: int
    jobs: list[JobRecord]
    """The oldest few of its running jobs."""
    path: str


@group.get("/workers", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """Show every registered worker."""
    app = call.whole(_WHAT)
    running = JobFilter(state=JobState.RUNNING, limit=_RUNNING)
    workers, stats, jobs, stranded, leases = await asyncio.gather(
        app.workers.alist(),
        app.stats.aworkers(),
        app.jobs.afind(running),
        app.queues.astranded(),
        app.jobs.aexpired_leases(limit=_LEASES),
    )
    rows = rows_of(workers, stats, jobs)
    return Page("workers.html", shows(rows, stranded, leases))


def shows(rows: Sequence[WorkerRow], stranded: Sequence[Stranded], leases: Sequence[Lease]) -> dict[str, Any]:
    """Return the context of the page."""
    live = [row for row in rows if row.state == "alive"]
    # Several workers may share a process, and each reports the figures of the whole process.
    processes = {(row.worker.host, row.worker.pid): row.vitals for row in live if row.vitals}.values()
    return {
        "page": "workers",
        "rows": rows,
        "live": len(live),
        "lost": sum(row.state == "lost" for row in rows),
        "slots": sum(row.worker.concurrency for row in live),
        "busy": sum(row.running for row in live),
        "cpu": sum(vitals.cpu for vitals in processes),
        "rss": sum(vitals.rss for vitals in processes),
        "hosts": len({row.worker.host for row in live}),
        "versions": sorted({row.worker.version for row in live}),
        "stranded": stranded[:_STRANDED],
        "stranded_queues": len({one.queue for one in stranded}),
        "leases": leases,
    }


def rows_of(workers: Sequence[WorkerInfo], stats: Sequence[WorkerStats], jobs: Sequence[JobRecord]) -> list[WorkerRow]:
    """Return live workers first, then by name."""
    vitals = {one.id: one.vitals for one in stats}
    owned: dict[str, list[JobRecord]] = {}
    for job in jobs:
        if job.owner is not None:
            owned.setdefault(job.owner, []).append(job)
    rows = [_row(worker, vitals.get(worker.id), owned.get(worker.id, [])) for worker in workers]
    return sorted(rows, key=lambda row: (_ORDER.index(row.state) if row.state in _ORDER else 9, row.worker.name))


def _row(worker: WorkerInfo, vitals: Vitals | None, jobs: Sequence[JobRecord]) -> WorkerRow:
    return WorkerRow(
        worker=worker,
        state=worker.state,
        tone=_TONES.get(worker.state, "plain"),
        vitals=vitals,
        running=worker.running,
        jobs=sorted(jobs, key=lambda job: job.claimed_at or 0)[:_JOBS],
        path=below("workers", worker.id, "dead"),
    )


@group.post("/workers/{worker_id}/dead", needs="operate")
@back_at("/workers")
async def mark_dead(call: Call, worker_id: str, form: ActForm) -> Done | Page:
    """Mark a worker dead."""
    workers = call.whole(_WHAT).workers
    if not form.confirmed or not form.reason.strip():
        text = (
            "Its jobs are rescued now, and it can no longer record results. If the process "
            "is still running, it stops its jobs and continues under a new identity."
        )
        return ask(
            call, form, title="Mark this worker dead?", text=text, go="Mark dead", back="/workers",
            reason="required", danger=True, page="workers",
        )  # fmt: skip
    why = form.reason.encode()[:_REASON].decode(errors="ignore")
    done = await workers.amark_dead(worker_id, why, actor=call.actor)
    if done.again:
        return Done("/workers", "Already marked dead; nothing changed.", ok=False)
    return Done("/workers", f"Marked dead; {done.rescued:,} of its jobs rescued.")
