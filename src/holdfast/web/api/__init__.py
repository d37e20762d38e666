"""The HTTP API: one module per resource, each with a group of operations."""

from __future__ import annotations

from typing import Final

from ..wire.operation import Group
from . import runs as runs
from .actions import group as acting
from .artifacts import group as artifacts
from .audit import group as audit
from .breakers import group as breakers
from .budgets import group as budgets
from .document import group as document
from .enqueue import group as enqueueing
from .errors import group as errors
from .events import group as events
from .flow_creation import group as making_flows
from .flows import group as flows
from .health import group as health
from .jobs import group as jobs
from .keys import group as keys
from .limits import group as limits
from .outboxes import group as outboxes
from .queues import group as queues
from .quotas import group as quotas
from .schedules import group as schedules
from .signals import group as signals
from .stats import group as stats
from .store import group as store
from .streams import group as streams
from .tasks import group as tasks
from .tokens import group as tokens
from .webhooks import group as webhooks
from .work import group as work
from .workers import group as workers

GROUPS: Final[tuple[Group, ...]] = (
    enqueueing,
    jobs,
    acting,
    streams,
    artifacts,
    signals,
    making_flows,
    flows,
    events,
    work,
    tasks,
    queues,
    limits,
    breakers,
    schedules,
    workers,
    budgets,
    quotas,
    webhooks,
    outboxes,
    keys,
    tokens,
    errors,
    stats,
    store,
    audit,
    health,
    document,
)
"""In the order of the document."""
