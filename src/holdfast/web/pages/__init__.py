"""The dashboard: one module per page, each with a group of routes."""

from __future__ import annotations

from typing import Final

from ..wire.operation import Group
from .approvals import group as approvals
from .audit import group as audit
from .budgetacts import group as budgetacts
from .bulk import group as bulk
from .enqueue import group as enqueue
from .errors import group as errors
from .flow import group as flow
from .flowacts import group as flowacts
from .flows import group as flows
from .job import group as job
from .jobacts import group as jobacts
from .jobanswers import group as jobanswers
from .jobs import group as jobs
from .limitacts import group as limitacts
from .limits import group as limits
from .login import group as login
from .outbox import group as outbox
from .overview import group as overview
from .queue import group as queue
from .queueforms import group as queueforms
from .queues import group as queues
from .schedule import group as schedule
from .scheduleacts import group as scheduleacts
from .schedules import group as schedules
from .settings import group as settings
from .store import group as store
from .webhookacts import group as webhookacts
from .webhooks import group as webhooks
from .workers import group as workers

PAGES: Final[tuple[Group, ...]] = (
    login,
    overview,
    jobs,
    bulk,
    enqueue,
    job,
    jobacts,
    jobanswers,
    errors,
    audit,
    budgetacts,
    limitacts,
    limits,
    queue,
    queueforms,
    queues,
    settings,
    store,
    workers,
    flows,
    flow,
    flowacts,
    schedules,
    schedule,
    scheduleacts,
    approvals,
    webhooks,
    webhookacts,
    outbox,
)
