"""What somebody should look at now, the worst first, each with what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.budget import Budget
from ...model.limits import Breaker
from ...model.signal import Pending
from ...model.stats import QueueStats, WorkerStats
from .addresses import queue_path
from .queuerows import due_at
from .storeverdicts import Verdict

_BEHIND: Final = 300.0
_FAILING: Final = 0.25
_MOST: Final = 12
_RANKS: Final = {"bad": 0, "warn": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """Something to look at."""

    key: str
    tone: str
    title: str
    advice: str
    path: str
    go: str
    """What the link says."""
    at: int | None = None
    """Since when, or until when."""


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
) -> list[Matter]:
    """All of it, or as much as anybody reads at once."""
    found = [
        *_of_workers(workers, queues),
        *_of_queues(queues, now),
        *of_breakers(breakers),
        *of_budgets(budgets),
        *_of_store(verdicts),
        *_of_runs(failing),
        *of_approvals(approvals),
    ]
    return sorted(found, key=lambda matter: _RANKS.get(matter.tone, 3))[:_MOST]


def _of_workers(workers: Sequence[WorkerStats], queues: Iterable[QueueStats]) -> Iterator[Matter]:
    waiting = sum(queue.count("waiting") for queue in queues)
    if waiting and not any(worker.is_live for worker in workers):
        yield Matter(
            key="no-worker",
            tone="bad",
            title="No worker is alive",
            advice=f"{waiting:,} jobs wait. Start one with: holdfast worker module:app",
            path="/workers",
            go="Workers",
        )
    for worker in workers:
        if worker.state == "lost":
            yield Matter(
                key=f"lost-{worker.id}",
                tone="warn",
                title=f"Worker {worker.name} is lost",
                advice="Its lease is over. A live worker rescues its jobs by itself; if its process is surely gone, "
                "mark it dead and they are rescued now.",
                path="/workers",
                go="Workers",
            )


def _of_queues(queues: Iterable[QueueStats], now: int) -> Iterator[Matter]:
    for queue in queues:
        due, path = due_at(queue, now), queue_path(queue.name)
        if due is None:
            continue
        waiting = f"{queue.count('waiting'):,} {'job is' if queue.count('waiting') == 1 else 'jobs are'} due"
        if queue.is_paused:
            advice = f"{waiting}, and none starts. Resume it when the reason for it is gone."
            title = f"Queue {queue.name} is {queue.state}"
            yield Matter(
                key=f"shut-{queue.name}", tone="info", title=title, advice=advice, path=path, go="Queue", at=due
            )
        elif not queue.workers:
            advice = f"{waiting}, and no live worker takes from it. Start one with --queues {queue.name}."
            title = f"Nobody serves queue {queue.name}"
            yield Matter(
                key=f"none-{queue.name}", tone="bad", title=title, advice=advice, path=path, go="Queue", at=due
            )
        elif (queue.oldest_due_age or 0.0) > _BEHIND:
            title, advice = f"Queue {queue.name} is behind", f"{waiting}. {_more_room(queue)}"
            yield Matter(
                key=f"late-{queue.name}", tone="warn", title=title, advice=advice, path=path, go="Queue", at=due
            )


def _more_room(queue: QueueStats) -> str:
    if queue.capacity is not None and queue.running >= queue.capacity:
        return f"Its limit of {queue.capacity} at once is used up: raise it, or wait."
    if queue.running >= queue.slots:
        return f"All {queue.slots} slots are busy: add workers, or give them more slots."
    return "Slots are free: a limit, a rate or a breaker holds its jobs. Explain on a job's page says which."


def of_breakers(breakers: Iterable[Breaker]) -> Iterator[Matter]:
    for one in breakers:
        if one.state == "closed":
            continue
        halfway = one.state == "half_open"
        yield Matter(
            key=f"breaker-{one.scope}",
            tone="info" if halfway else "warn",
            title=f"Breaker {one.scope} is {'half open' if halfway else 'open'}",
            advice="One job tries whether the other side is back."
            if halfway
            else "Jobs that name it wait, and one tries when its time is over. Reset it if the other side is back.",
            path="/limits#breakers",
            go="Breakers",
            at=None if halfway else one.open_until,
        )


def of_budgets(budgets: Iterable[Budget]) -> Iterator[Matter]:
    for one in budgets:
        if one.is_exhausted:
            waits = f"{one.blocked:,} {'job waits' if one.blocked == 1 else 'jobs wait'} for room. "
            anew = "Raise it, or wait until it begins anew." if one.next_reset else "Raise it, or reset it."
            yield Matter(
                key=f"budget-{one.tenant}-{one.name}",
                tone="bad" if one.blocked else "warn",
                title=f"Budget {one.name} is exhausted" + (f" ({one.tenant})" if one.tenant else ""),
                advice=(waits if one.blocked else "") + anew,
                path="/limits#budgets",
                go="Budgets",
                at=one.next_reset,
            )


def of_approvals(approvals: Sequence[Pending]) -> Iterator[Matter]:
    awaited = [one for one in approvals if one.awaited]
    if awaited:
        many = len(awaited) != 1
        expiries = [one.expires_at for one in awaited if one.expires_at is not None]
        yield Matter(
            key="approvals",
            tone="info",
            title=f"{len(awaited):,} {'jobs wait' if many else 'job waits'} for an answer",
            advice="Somebody has to say yes or no before "
            + ("they go" if many else "it goes")
            + (f" on; the next expiry ends {'one' if many else 'it'}." if expiries else " on."),
            path="/approvals",
            go="Approvals",
            at=min(expiries, default=None),
        )


def _of_store(verdicts: Iterable[Verdict]) -> Iterator[Matter]:
    for one in verdicts:
        if one.verdict in ("warn", "bad"):
            title = f"Store: {one.name.lower()}"
            yield Matter(
                key=f"store-{one.key}", tone=one.verdict, title=title, advice=one.advice, path="/store", go="Store"
            )


def _of_runs(failing: float | None) -> Iterator[Matter]:
    if failing is not None and failing >= _FAILING:
        yield Matter(
            key="failing",
            tone="warn",
            title="Many runs fail",
            advice="Over a quarter of the runs in this window failed. See which kind of error is the most frequent.",
            path="/errors?window=1h",
            go="Errors",
        )
