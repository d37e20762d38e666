"""The dashboard: one module per page, each with a group of routes."""

from __future__ import annotations

from typing import Final

from ..wire.operation import Group
from .approvals import group as approvals
from .audit import group as audit
from .budgets import group as budgets
from .bulk import group as bulk
from .enqueue import group as enqueue
from .errors import group as errors
from .flow import group as flow
from .flows import group as flows
from .job import group as job
from .job_actions import group as job_actions
from .jobs import group as jobs
from .limits import group as limits
from .login import group as login
from .outbox import group as outbox
from .overview import group as overview
from .queue import group as queue
from .queues import group as queues
from .schedule import group as schedule
from .schedules import group as schedules
from .settings import group as settings
from .store import group as store
from .webhooks import group as webhooks
from .workers import group as workers

PAGES: Final[tuple[Group, ...]] = (
    login,
    overview,
    jobs,
    bulk,
    enqueue,
    job,
    job_actions,
    errors,
    audit,
    budgets,
    limits,
    queue,
    queues,
    settings,
    store,
    workers,
    flows,
    flow,
    schedules,
    schedule,
    approvals,
    webhooks,
    outbox,
)
