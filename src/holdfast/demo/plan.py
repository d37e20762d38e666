"""What the demo enqueues: 2,000 jobs in all, and how each must end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ..handle import Job
from ..model.job import JobState
from ..tasks import JobRequest
from . import tasks

TOTAL: Final = 2_000
BACKLOG: Final = 1_300
DURING_KILL: Final = 100
SPECIAL: Final = 4
"""The deduplicated, the doomed, the endless and the victim."""
SINGLES: Final = TOTAL - BACKLOG - DURING_KILL - SPECIAL

PRIORITIES: Final = (0, 5, 9)


@dataclass(slots=True)
class Run:
    """The jobs of one run of the demo, by id, with the state in which each must end."""

    tenant: str
    expected: dict[str, JobState] = field(default_factory=dict[str, JobState])
    singles: set[str] = field(default_factory=set[str])
    backlog: set[str] = field(default_factory=set[str])
    special: dict[str, str] = field(default_factory=dict[str, str])
    deduped: bool = False
    killed_at: float = 0.0
    """When the worker was killed, and when the last job that it ran had ended elsewhere; both monotonic."""
    mended_at: float = 0.0

    def expect(self, job: Job[Any], state: JobState = JobState.SUCCEEDED, *, name: str = "") -> str:
        self.expected[job.id] = state
        if name:
            self.special[name] = job.id
        return job.id


def backlog(tenant: str) -> list[JobRequest[Any]]:
    """Jobs of all kinds for three queues, to be enqueued in one transaction before a worker runs."""
    return [_kind(n, tenant) for n in range(BACKLOG)]


def singles(tenant: str) -> Iterator[JobRequest[Any]]:
    """Quick jobs, to be enqueued one by one while a worker runs."""
    mail, media = tasks.welcome.options(tenant=tenant), tasks.resize.options(tenant=tenant)
    for n in range(SINGLES):
        yield mail.job(n) if n % 2 else media.job(f"{n}.png")


def during_kill(tenant: str) -> list[JobRequest[Any]]:
    """Jobs that keep the worker busy when it is killed."""
    return [tasks.render.options(tenant=tenant).job(n) for n in range(DURING_KILL)]


def _kind(n: int, tenant: str) -> JobRequest[Any]:
    match n % 13:
        case 0:
            return tasks.remind.options(tenant=tenant, delay=0.5 + n / BACKLOG * 3).job(n)
        case 1:
            return tasks.flaky.options(tenant=tenant).job(1 + n % 2)
        case 2 | 3 | 4:
            return tasks.resize.options(tenant=tenant, priority=_priority(n)).job(f"{n}.png")
        case _:
            return tasks.welcome.options(tenant=tenant, priority=_priority(n)).job(n)


def _priority(n: int) -> int:
    return PRIORITIES[n % len(PRIORITIES)]
