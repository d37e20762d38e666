"""A flow: jobs and their dependencies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from .jobs import JobSpec, JobState

Policy = Literal["success", "failure", "any"]
"""The end of an upstream that counts."""
Mode = Literal["all", "any", "quorum"]
Rest = Literal["cancel", "run"]
"""The treatment of upstreams that are no longer needed."""


class FlowState(StrEnum):
    """The state of a flow, derived from its members and from whether it was cancelled."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """Every member ended, none failed or expired, and only those that were no longer needed were cancelled."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class CancelPolicy(StrEnum):
    """The members that cancelling a flow affects. An unknown policy is treated as the first, the least destructive."""

    FLOW_ONLY = "flow_only"
    """Nothing more is added or released; members that could already start continue."""
    CANCEL_PENDING = "cancel_pending"
    """Members that have not started are cancelled."""
    CANCEL_ALL = "cancel_all"
    """Running members are asked to stop, too."""


@dataclass(frozen=True, slots=True)
class Join:
    """The number of upstreams that a member needs: all, one, or `needed` of them."""

    mode: Mode = "all"
    needed: int = 0
    """With a quorum."""
    rest: Rest = "run"


@dataclass(frozen=True, slots=True)
class JoinChange:
    """The answer to a change of a member's join: the join that it has now, and its state after the change."""

    job_id: str
    join: Join
    upstreams: int
    state: JobState
    """`blocked` while it still waits, `ready` if the new join is met, `skipped` if it can no longer be met."""
    changed: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """`downstream` waits for `upstream`; both are job ids."""

    upstream: str
    downstream: str
    policy: Policy = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A job to add to a flow."""

    spec: JobSpec
    name: str
    """Unique in its flow."""
    join: Join = field(default_factory=Join)
    inputs: str | None = None
    """The arguments that are results of upstreams, encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """A whole flow to create in one transaction."""

    id: str
    name: str
    tenant: str = ""
    members: tuple[Member, ...] = ()
    edges: tuple[Edge, ...] = ()
    on_success: JobSpec | None = None
    on_failure: JobSpec | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """The run of a member that extends its own flow, with the proof that it still owns the job."""

    owner: str
    job_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """A flow's row, in the order of its columns. Instants are microseconds."""

    id: str
    name: str
    tenant: str
    revision: int
    members: int
    live: int
    on_success: str | None
    on_failure: str | None
    cancel_policy: str | None
    cancel_reason: str | None
    cancel_at: int | None
    created_at: int
    finished_at: int | None
    outcome: str | None

    @property
    def state(self) -> FlowState:
        return FlowState.RUNNING if self.outcome is None else FlowState(self.outcome)


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member as the graph shows it."""

    id: str
    name: str
    task: str
    queue: str
    state: JobState
    reason: str | None
    attempts: int
    generation: int
    created_at: int
    started_at: int | None
    finished_at: int | None
    mode: Mode | None
    """The number of upstreams that it needs; None if it has none."""
    needed: int | None
    rest: Rest | None
    inputs: str | None = None
    """The arguments that are results of upstreams, encoded."""


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    upstream: str
    downstream: str
    policy: Policy
    applied: bool
    met: bool | None
    """None until the upstream has ended."""


@dataclass(frozen=True, slots=True)
class FlowGraph:
    flow: FlowRecord
    members: tuple[MemberRecord, ...]
    edges: tuple[EdgeRecord, ...]


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """A member without dependents, and its state and result so far."""

    id: str
    name: str
    task: str
    state: JobState
    result: str | None
    error: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class FlowCancel:
    """The result of a cancel. A repeated one returns the result of the first."""

    policy: CancelPolicy
    reason: str
    at: int
    again: bool = False
    members: tuple[str, ...] = ()
    """The ids of the jobs that it reached: those it ended, and those it asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFilter:
    """A filter for a list of flows, newest first. `before` is the id that the last page ended with."""

    state: FlowState | None = None
    name: str | None = None
    tenant: str | None = None
    since: int | None = None
    """Created at this instant or later, in microseconds."""
    until: int | None = None
    """Created before this instant."""
    before: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow, the state that follows from its members, and how many of them are in each."""

    record: FlowRecord
    state: FlowState
    counts: dict[str, int]
    """By state, without states that have none."""
