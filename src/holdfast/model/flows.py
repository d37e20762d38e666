"""A flow: jobs and their dependencies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import msgspec

from .jobs import JobSpec, JobState
from .values import Instant, instant_of

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


class JoinChange(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change of a member's join: the join that it has now, and its state after the change."""

    flow_id: str = msgspec.field(name="id")
    job_id: str = msgspec.field(name="job")
    needs: Mode
    needed: int
    rest: Rest
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


class FlowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A flow."""

    id: str
    name: str
    tenant: str
    state: FlowState
    members: int
    live: int
    """The number of members that have not ended."""
    revision: int
    """Of its graph."""
    cancel_policy: str | None
    cancel_reason: str | None
    cancel_requested_at: Instant | None
    created_at: Instant
    finished_at: Instant | None


class FlowStatus(FlowInfo, frozen=True, kw_only=True):
    """A flow, and how many of its members are in each state."""

    counts: dict[str, int]
    """Without states that have none."""


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

    @property
    def shown(self) -> FlowInfo:
        """Return the flow as programs see it."""
        return FlowInfo(**self._facts())

    def status(self, counts: dict[str, int]) -> FlowStatus:
        """Return the flow as programs see it, with the number of members in each state."""
        return FlowStatus(**self._facts(), counts=counts)

    def _facts(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "tenant": self.tenant,
            "state": self.state,
            "members": self.members,
            "live": self.live,
            "revision": self.revision,
            "cancel_policy": self.cancel_policy,
            "cancel_reason": self.cancel_reason,
            "cancel_requested_at": instant_of(self.cancel_at),
            "created_at": instant_of(self.created_at),
            "finished_at": instant_of(self.finished_at),
        }


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

    @property
    def shown(self) -> FlowMember:
        """Return the member as programs see it."""
        return FlowMember(
            id=self.id,
            name=self.name,
            task=self.task,
            queue=self.queue,
            state=self.state,
            reason=self.reason,
            attempts=self.attempts,
            needs=self.mode,
            needed=self.needed,
            rest=self.rest,
            created_at=instant_of(self.created_at),
            started_at=instant_of(self.started_at),
            finished_at=instant_of(self.finished_at),
        )


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

    @property
    def shown(self) -> FlowShape:
        """Return the graph as JSON shows it."""
        names = {member.id: member.name for member in self.members}
        edges = tuple(
            FlowEdge(
                upstream=names[edge.upstream],
                downstream=names[edge.downstream],
                on=edge.policy,
                applied=edge.applied,
                met=edge.met,
            )
            for edge in self.edges
        )
        return FlowShape(id=self.flow.id, members=tuple(member.shown for member in self.members), edges=edges)


class FlowMember(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a flow. `needs` says how many upstreams it waits for: all, any, or a quorum of `needed`."""

    id: str
    name: str
    task: str
    queue: str
    state: JobState
    reason: str | None
    attempts: int
    needs: Mode | None
    needed: int | None
    rest: Rest | None
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


class FlowEdge(msgspec.Struct, frozen=True, kw_only=True):
    """One member waits for another to end in this way. `met` is null until that has ended."""

    upstream: str = msgspec.field(name="from")
    downstream: str = msgspec.field(name="to")
    on: Policy
    applied: bool
    met: bool | None


class FlowShape(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a flow in JSON. Edges are between names."""

    id: str
    members: tuple[FlowMember, ...]
    edges: tuple[FlowEdge, ...]


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
class CancelRecord:
    """A cancel as it is stored, at an instant in microseconds."""

    policy: CancelPolicy
    reason: str
    at: int
    again: bool = False


class FlowCancel(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cancel. A repeated one returns the result of the first, with `changed` false."""

    flow_id: str = msgspec.field(name="id")
    policy: CancelPolicy
    reason: str
    again: bool
    changed: bool
    members: tuple[str, ...]
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
