"""The overview: current load, recent activity and problems."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...model.budgets import Budget
from ...model.limits import Breaker
from ...model.signals import Pending
from ...model.stats import MINUTE, FailedRun, QueueStats, StoreStats, TaskStats, WorkerStats
from ...shapes.jobs import error_line
from ..wire.call import Call
from ..wire.operation import Group
from .activity import WINDOWS, Timeline, load_chart, timeline_of
from .attention import attention
from .frame import Page
from .queues import due_at, rows_of, unfinished
from .shared_reads import SharedRead
from .store_checks import health_verdicts

group = Group("Overview", kind="page")

_FAILURES: Final = 8
_APPROVALS: Final = 200
_SIGNS: Final = 500
_TASKS: Final = 20


class OverviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The time window."""

    window: Literal["15m", "1h", "4h"] = "1h"


@dataclass(frozen=True, slots=True)
class Signs:
    """Possible problems besides queues and workers."""

    breakers: Sequence[Breaker]
    budgets: Sequence[Budget]
    approvals: Sequence[Pending]
    store: StoreStats | None = None


_signs: Final = SharedRead[Signs](3.0)
# Minutes close no faster.
_tasks: Final = SharedRead[list[TaskStats]](8.0)


@group.get("/", needs="read")
async def show(call: Call, query: OverviewQuery) -> Page:
    """Show the overview."""
    now = SYSTEM_CLOCK.now()
    if call.identity.tenant:
        return await _of_tenant(call, now)
    app = call.app
    queues, workers, runs, timeline, tasks, signs = await asyncio.gather(
        app.stats.aqueues(),
        app.stats.aworkers(),
        app.errors.aruns(since=now - 24 * 60 * MINUTE, limit=_FAILURES),
        timeline_of(app, query.window),
        _tasks.at(app, query.window, lambda: app.stats.atasks(WINDOWS[query.window])),
        _signs.at(app, None, lambda: _look(app)),
    )
    shows = whole_shows(queues, workers, timeline, signs, now)
    return Page("overview.html", {**_common(call, query.window, runs), **shows, **_busiest(tasks)})


async def _look(app: App) -> Signs:
    found = await asyncio.gather(
        app.breakers.alist(),
        app.budgets.alist(limit=_SIGNS),
        app.signals.apending(limit=_APPROVALS),
        app.stats.astore(),
    )
    return Signs(*found)


async def _of_tenant(call: Call, now: int) -> Page:
    """Return a tenant's own queues, failures, budgets and approvals."""
    client = call.app.scoped(call.identity.tenant)
    queues, runs, budgets, approvals = await asyncio.gather(
        client.queues.astats(),
        client.errors.aruns(since=now - 24 * 60 * MINUTE, limit=_FAILURES),
        client.budgets.alist(limit=_SIGNS),
        client.signals.apending(limit=_APPROVALS),
    )
    shows = {
        "whole": False,
        "rows": rows_of(queues, now, None),
        "alerts": attention((), (), (), budgets, approvals),
        "sums": _sums(queues),
        "approvals": len(approvals),
    }
    return Page("overview.html", {**_common(call, "1h", runs), **shows})


def whole_shows(
    queues: Sequence[QueueStats], workers: Sequence[WorkerStats], timeline: Timeline, signs: Signs, now: int
) -> dict[str, Any]:
    """Return the context for the whole store."""
    did = timeline.whole
    live = [worker for worker in workers if worker.is_live]
    slots, running = sum(worker.slots for worker in live), sum(queue.running for queue in queues)
    due = [(at, queue.name) for queue in queues if (at := due_at(queue, now)) is not None and not queue.is_paused]
    verdicts = [] if signs.store is None else health_verdicts(signs.store, None)
    alerts = attention(
        queues, workers, signs.breakers, signs.budgets, signs.approvals,
        verdicts=verdicts, failing=did.failing(), now=now,
    )  # fmt: skip
    return {
        "whole": True,
        "rows": rows_of(queues, now, timeline),
        "alerts": alerts,
        "sums": _sums(queues),
        "oldest": min(due, default=None),
        "did": did,
        "charts": timeline.charts,
        "load": load_chart(did, unfinished(queues)),
        "slots": slots,
        "running": running,
        "workers": len(live),
        "approvals": len(signs.approvals),
    }


def _busiest(tasks: Sequence[TaskStats]) -> dict[str, Any]:
    """Return the tasks with the most runs, and the number of tasks."""
    ordered = sorted(tasks, key=lambda task: (-task.runs, task.task))
    return {"tasks": ordered[:_TASKS], "tasks_in_all": len(ordered)}


def _common(call: Call, window: str, runs: Sequence[FailedRun]) -> dict[str, Any]:
    return {
        "page": "overview",
        "window": window,
        "windows": list(WINDOWS),
        "runs": [(run, error_line(run.error) or "") for run in runs],
    }


def _sums(queues: Sequence[QueueStats]) -> dict[str, tuple[int, bool]]:
    """Return the number of jobs per label over all queues, and whether it is an estimate."""
    labels = {label for queue in queues for label in queue.counts}
    return {label: (sum(q.count(label) for q in queues), any(label in q.estimated for q in queues)) for label in labels}
