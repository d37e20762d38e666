"""Jobs, workers, queues and flows as a model holds them, and the few ways in which a job moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import NotFound
from holdfast.model.flows import Join
from holdfast.model.jobs import JobState
from holdfast.rules.lifecycle import MOVES, Event

from .purse import Purse

S = JobState


@dataclass
class Waiting:
    """What a suspended job waits for."""

    key: str
    names: tuple[str, ...] = ()
    jobs: bool = False
    timeout_at: int | None = None
    on_timeout: str = "fail"


@dataclass
class Job:
    """One job. Named as its columns are, where they say the same."""

    id: str
    queue: str
    payload: str
    priority: int
    not_before: int
    due: int | None
    reason: str | None
    max_attempts: int
    deadline: int | None = None
    key: str | None = None
    until: str | None = None
    holds_key: bool = False
    limit: tuple[str, int] | None = None
    rank: int = 0
    lane: str | None = None
    state: JobState = S.READY
    attempts: int = 0
    past_attempts: int = 0
    crashes: int = 0
    losses: int = 0
    suspect: int = 0
    alone: int = 0
    generation: int = 0
    epoch: int = 0
    owner: str | None = None
    cancel: bool = False
    cancel_reason: str | None = None
    started_at: int | None = None
    ran_in: int | None = None
    """The generation of its last run."""
    finished_at: int | None = None
    finished_epoch: int | None = None
    flow: str | None = None
    linked: int = 0
    join: Join | None = None
    wait: Waiting | None = None
    answered: set[str] = field(default_factory=set)
    was: tuple[int | None, bool, int | None] = (None, False, None)
    """Before its last claim: when it had started, whether it held its key, and the generation of its last run."""
    mailbox: list[tuple[str, str | None]] = field(default_factory=list)
    """Signals in the order of acceptance: the name, and the wait that took it."""
    letters: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By their idempotency key: the number, and the name."""

    def move(self, event: Event, to: JobState) -> None:
        """Change the state as the table allows."""
        assert to in MOVES.get((self.state, event), ()), f"the model is wrong: {self.state} -{event}-> {to}"
        self.state = to

    def rests(self, reason: str | None, at: int, now: int) -> None:
        """It is ready from `at` on."""
        self.reason, self.not_before, self.rank = reason, at, at
        self.due = 0 if at > now else self.mark

    @property
    def mark(self) -> int:
        """How it is claimable."""
        return 3 if self.suspect else 1

    def ends(self, reason: str | None, now: int) -> None:
        """What every end has in common."""
        self.reason, self.due, self.finished_at = reason, None, now
        self.holds_key, self.owner, self.alone = False, None, 0
        self.epoch += 1

    def row(self) -> tuple[Any, ...]:
        """As `COLUMNS` are read from a store."""
        return (
            self.id, str(self.state), self.due, self.reason, self.queue, self.payload, self.priority, self.rank,
            self.not_before, self.attempts, self.past_attempts, self.crashes, self.losses, self.suspect, self.alone,
            self.generation, self.epoch, self.owner, int(self.cancel), int(self.holds_key), self.started_at,
            self.finished_at, self.finished_epoch, self.deadline, self.linked, self.lane if self.due == 2 else None,
        )  # fmt: skip


COLUMNS = (
    "id, state, due, reason, queue, payload, priority, rank, not_before, attempts, past_attempts, crashes, losses,"
    " suspect, alone, generation, epoch, owner, case when cancel_at is null then 0 else 1 end,"
    " case when dedupe_held is null then 0 else 1 end, started_at, finished_at, finished_epoch, deadline,"
    " linked, case when due = 2 then lane end"
)


@dataclass
class Worker:
    id: str
    state: str
    lease_until: int


@dataclass
class Edge:
    upstream: str
    downstream: str
    policy: str
    met: bool | None = None


@dataclass
class Flow:
    cancelled: bool = False
    finished: bool = False
    outcome: str | None = None


@dataclass
class Model:
    """Everything that the store should know. `now` is the clock that both share."""

    now: int
    jobs: dict[str, Job] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)
    windows: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By dedupe key: the job that opened it, and when it closes."""
    flows: dict[str, Flow] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    waits: dict[tuple[str, str], bool] = field(default_factory=dict)
    """By upstream and the job that was suspended until it ends: whether it has."""
    purse: Purse = field(default_factory=Purse)
    skipped: int = 0
    """How often a member was skipped."""

    def job(self, job_id: str) -> Job:
        if job_id not in self.jobs:
            raise NotFound("job", job_id)
        return self.jobs[job_id]

    def holder(self, key: str | None) -> Job | None:
        """The job that holds a dedupe key."""
        return next((job for job in self.all() if key and job.holds_key and job.key == key), None)

    def members(self, flow: str) -> list[Job]:
        return [job for job in self.all() if job.flow == flow]

    def running_in(self, lane: str) -> int:
        return sum(job.state is S.RUNNING and job.limit is not None and job.limit[0] == lane for job in self.all())

    def all(self) -> Iterable[Job]:
        return self.jobs.values()
