"""Tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from ...clock import SECOND
from ...names import check_duration
from ...tasks.task import Task
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole

group = Group("Tasks", "The tasks that this app knows.")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A task: how its jobs run unless a call says otherwise, and what it takes by name, as JSON Schema."""

    name: str
    about: str | None
    declared: bool
    """Implemented elsewhere, so that any arguments are taken."""
    queue: str
    priority: int
    max_attempts: int | None
    timeout: float | None
    retry: dict[str, Any] | None
    concurrency: int | None
    rate: str | None
    breaker: str | None
    quota: str | None
    requires: list[str]
    affinity: str | None
    version: str | None
    isolate: str | None
    arguments: dict[str, Any]


@group.get("/tasks", needs="read")
async def list_tasks(call: Call) -> Page[Kind]:
    """List the registered and declared tasks, each with its options and parameters."""
    return whole(_kind(call.app.tasks[name]) for name in sorted(call.app.tasks))


def _kind(task: Task[Any, Any]) -> Kind:
    options = task.task_options
    about = (task.fn.__doc__ or "").strip() if task.fn is not None else ""
    return Kind(
        name=task.name,
        about=about or None,
        declared=task.fn is None,
        queue=options.queue,
        priority=options.priority,
        max_attempts=options.max_attempts,
        timeout=None if options.timeout is None else check_duration("timeout", options.timeout) / SECOND,
        retry=None if options.retry is None else asdict(options.retry),
        concurrency=options.concurrency,
        rate=options.rate,
        breaker=options.breaker,
        quota=options.quota,
        requires=sorted(options.requires),
        affinity=options.affinity,
        version=options.version,
        isolate=options.isolate,
        arguments=task.signature.schema(),
    )
