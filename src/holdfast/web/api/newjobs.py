"""Jobs as callers ask for them: a task by its name, its arguments, and what the call says beyond the task."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from ...errors import UnknownTask
from ...model.job import OnDuplicate
from ...names import MAX_ATTEMPTS, MAX_PRIORITY, MAX_TAGS, MIN_PRIORITY, TAG_BYTES
from ...options import CallOptions
from ...rules.retry import RetryPolicy
from ...tasks import JobRequest
from ..wire.call import Call
from .types import Name, QueueName, Seconds

MOST: Final = 10_000
"""Jobs in one call."""
STORABLE: Final = r"^[^\x00]+$"
"""Postgres cannot keep a text with a zero in it."""
Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TAG_BYTES)]
_Attempts: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_ATTEMPTS)]
_Running: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Year: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
_Url: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2048, pattern=STORABLE)]


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long to wait before each retry, in seconds."""

    kind: Literal["none", "fixed", "exponential"] = "exponential"
    initial: _Year = 2.0
    factor: _Year = 2.0
    cap: _Year = 900.0
    jitter: Literal["none", "full", "additive"] = "additive"
    spread: _Year = 0.25
    max_age: Annotated[float, msgspec.Meta(gt=0)] | None = None


class JobOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a call asks for beyond its task's own options; null leaves the task's. Durations are seconds."""

    id: QueueName | None = None
    queue: QueueName | None = None
    priority: Priority | None = None
    delay: Seconds | None = None
    at: Instant | None = None
    deadline: Seconds | Instant | None = None
    timeout: Seconds | None = None
    max_attempts: _Attempts | None = None
    retry: RetryRule | None = None
    tags: Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)] = []
    tenant: Name | None = None
    dedupe_key: Name | None = None
    dedupe_scope: Name | None = None
    dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish"
    on_duplicate: OnDuplicate = "existing"
    concurrency_key: Name | None = None
    concurrency: _Running | None = None
    fair_key: Name | None = None
    weight: Annotated[float, msgspec.Meta(ge=0.01, le=64)] = 1.0
    rate: Name | None = None
    breaker: Name | None = None
    quota: Name | None = None
    reserve: Annotated[dict[Name, dict[Name, int | float]], msgspec.Meta(max_length=64)] | None = None
    requires: Annotated[list[QueueName], msgspec.Meta(max_length=256)] | None = None
    affinity: QueueName | None = None
    version: Name | None = None
    webhook: _Url | None = None
    webhook_events: Annotated[list[Name], msgspec.Meta(max_length=32)] = []


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue. Arguments go by name, or in the order of the task's parameters."""

    task: Name
    arguments: dict[str, Any] | list[Any] = {}
    options: JobOptions | None = None


class NewJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Jobs to enqueue together: all of them, or none."""

    jobs: Annotated[list[NewJob], msgspec.Meta(min_length=1, max_length=MOST)]


class Awaited(NewJob, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue and to wait for."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for its end.")] = 30.0


def request_of(call: Call, new: NewJob) -> JobRequest[Any]:
    """The call as a value, checked. UnknownTask where this program has no such task, unless it takes any."""
    task = call.app.tasks.get(new.task)
    if task is None:
        if not call.settings.any_task:
            raise UnknownTask(
                f"this program has no task {new.task!r}; GET /api/v1/tasks lists those it has. One that is "
                "implemented elsewhere is made known by app.declare; a site with any_task=True takes every name"
            )
        task = call.app.elsewhere(new.task)
    return task.read(new.arguments, None if new.options is None else _options(new.options))


def _options(given: JobOptions) -> CallOptions:
    said = msgspec.structs.asdict(given)
    if given.retry is not None:
        said["retry"] = RetryPolicy(**msgspec.structs.asdict(given.retry))
    return CallOptions(**said)
