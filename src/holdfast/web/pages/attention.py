"""Problems that need attention, most severe first, each with advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...model.budgets import Budget
from ...model.limits import Breaker
from ...model.signals import Pending
from ...model.stats import QueueStats, WorkerStats
from .queues import due_at
from .store_checks import Verdict
from .templates import queue_path

_BEHIND: Final = 300.0
_FAILING: Final = 0.25
_MOST: Final = 12
_RANKS: Final = {"bad": 0, "warn": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A problem that needs attention."""

    key: str
    tone: str
    title: str
    advice: str
    path: str
    go: str
    """The label of the link."""
    at: datetime | int | None = None
    """Since when, or until when."""
    at_label: str = ""
    """The words before `at`, behind the advice; without it, `at` follows the title."""


def attention(
    queues: Sequence[QueueStats],
    workers: Sequence[WorkerStats],
    breakers: Sequence[Breaker],
    budgets: Sequence[Budget],
    approvals: Sequence[Pending],
    *,
    verdicts: Sequence[Verdict] = (),
    failing: float | None = None,
    now: int = 0,
) -> list[Alert]:
    """Return the most severe problems, up to a limit."""
    found = [
        *_of_workers(workers, queues),
        *_of_queues(queues, now),
        *of_breakers(breakers),
        *of_budgets(budgets),
        *_of_store(verdicts),
        *_of_runs(failing),
        *of_approvals(approvals),
    ]
    return sorted(found, key=lambda alert: _RANKS.get(alert.tone, 3))[:_MOST]


def _of_workers(workers: Sequence[WorkerStats], queues: Iterable[QueueStats]) -> Iterator[Alert]:
    waiting = sum(queue.count("waiting") for queue in queues)
    if waiting and not any(worker.is_live for worker in workers):
        yield Alert(
            key="no-worker",
            tone="bad",
            title="No live workers",
            advice=f"{waiting:,} jobs are waiting. Start a worker: holdfast worker module:app",
            path="/workers",
            go="Workers",
        )
    for worker in workers:
        if worker.state == "lost":
            yield Alert(
                key=f"lost-{worker.id}",
                tone="warn",
                title=f"Worker {worker.name} is lost",
                advice="Its lease has expired. A live worker rescues its jobs; if you are sure the process is gone, "
                "mark it dead to rescue them now.",
                path="/workers",
                go="Workers",
            )


def _of_queues(queues: Iterable[QueueStats], now: int) -> Iterator[Alert]:
    for queue in queues:
        due, path = due_at(queue, now), queue_path(queue.name)
        if due is None:
            continue
        waiting = f"{queue.count('waiting'):,} {'job is' if queue.count('waiting') == 1 else 'jobs are'} due"
        if queue.is_paused:
            advice = f"{waiting}, but none will start. Resume the queue when it is safe."
            title = f"Queue {queue.name} is {queue.state}"
            yield Alert(
                key=f"shut-{queue.name}", tone="info", title=title, advice=advice, path=path, go="Queue", at=due
            )
        elif not queue.workers:
            advice = f"{waiting}, but no live worker serves the queue. Start one with --queues {queue.name}."
            title = f"No worker serves queue {queue.name}"
            yield Alert(key=f"none-{queue.name}", tone="bad", title=title, advice=advice, path=path, go="Queue", at=due)
        elif (queue.oldest_due_age or 0.0) > _BEHIND:
            title, advice = f"Queue {queue.name} is behind", f"{waiting}. {_more_room(queue)}"
            yield Alert(
                key=f"late-{queue.name}", tone="warn", title=title, advice=advice, path=path, go="Queue", at=due
            )


def _more_room(queue: QueueStats) -> str:
    if queue.capacity is not None and queue.running >= queue.capacity:
        return f"Its concurrency limit of {queue.capacity} is reached: raise it, or wait."
    if queue.running >= queue.slots:
        return f"All {queue.slots} slots are busy: add workers, or give them more slots."
    return "Slots are free: a limit, a rate or a breaker holds jobs back. A job's page shows which."


def of_breakers(breakers: Iterable[Breaker]) -> Iterator[Alert]:
    for one in breakers:
        if one.state == "closed":
            continue
        halfway = one.state == "half_open"
        yield Alert(
            key=f"breaker-{one.scope}",
            tone="info" if halfway else "warn",
            title=f"Breaker {one.scope} is {'half open' if halfway else 'open'}",
            advice="A trial job checks whether the service has recovered."
            if halfway
            else "Jobs that use it wait; a trial job runs when the time is up. Reset it if the service has recovered.",
            path="/limits#breakers",
            go="Breakers",
            at=None if halfway else one.open_until,
        )


def of_budgets(budgets: Iterable[Budget]) -> Iterator[Alert]:
    for one in budgets:
        if one.is_exhausted:
            waits = f"{one.blocked:,} {'job is' if one.blocked == 1 else 'jobs are'} waiting. "
            remedy = "Raise it, or wait for the reset." if one.next_reset else "Raise or reset it."
            yield Alert(
                key=f"budget-{one.tenant}-{one.name}",
                tone="bad" if one.blocked else "warn",
                title=f"Budget {one.name} is exhausted" + (f" ({one.tenant})" if one.tenant else ""),
                advice=(waits if one.blocked else "") + remedy,
                path="/limits#budgets",
                go="Budgets",
                at=one.next_reset,
            )


def of_approvals(approvals: Sequence[Pending]) -> Iterator[Alert]:
    awaited = [one for one in approvals if one.awaited]
    if awaited:
        many = len(awaited) != 1
        expiries = [one.expires_at for one in awaited if one.expires_at is not None]
        yield Alert(
            key="approvals",
            tone="info",
            title=f"{len(awaited):,} pending {'approvals' if many else 'approval'}",
            advice="Waiting for input.",
            at_label="Next one expires" if many else "It expires",
            path="/approvals",
            go="Approvals",
            at=min(expiries, default=None),
        )


def _of_store(verdicts: Iterable[Verdict]) -> Iterator[Alert]:
    for one in verdicts:
        if one.verdict in ("warn", "bad"):
            title = f"Store: {one.name.lower()}"
            yield Alert(
                key=f"store-{one.key}", tone=one.verdict, title=title, advice=one.advice, path="/store", go="Store"
            )


def _of_runs(failing: float | None) -> Iterator[Alert]:
    if failing is not None and failing >= _FAILING:
        yield Alert(
            key="failing",
            tone="warn",
            title="High failure rate",
            advice="Over a quarter of the runs in this window failed. Check the most frequent errors.",
            path="/errors?window=1h",
            go="Errors",
        )
