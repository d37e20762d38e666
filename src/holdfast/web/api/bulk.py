"""Operator actions on many jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...model.actions import Action
from ...shapes.bulk import BulkReport, of_report
from ..wire.call import Call
from .actions import group
from .enqueue import MOST, Priority
from .jobs import Wanted, filter_of
from .types import Acting, Name, QueueName


class ManyJobs(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action and the jobs: by `filter`, by `ids`, or `all` of them.

    `priority` belongs to the action of that name, `queue` to `move`, `force` to `cancel`.
    """

    action: Action
    filter: Wanted | None = None
    ids: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST)] | None = None
    all: bool = False
    dry_run: bool = False
    priority: Priority | None = None
    queue: QueueName | None = None
    force: bool = False


@group.post("/jobs/actions", needs="operate", bulk=True)
async def act_on_jobs(call: Call, body: ManyJobs) -> BulkReport:
    """Act on many jobs.

    The jobs are selected once; then each 500 of them are one transaction with its own audit record. With `dry_run`
    nothing is changed, and the counts are a preview.
    """
    wanted = None if body.filter is None else filter_of(call, body.filter)
    report = await call.client.jobs.abulk(
        body.action,
        wanted,
        ids=body.ids,
        all=body.all,
        dry_run=body.dry_run,
        actor=call.actor,
        reason=body.reason,
        priority=body.priority,
        to_queue=body.queue,
        force=body.force,
    )
    return of_report(report)
