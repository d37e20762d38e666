"""Jobs in requests: a task by name, its arguments and options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from ...errors import UnknownTask
from ...model.access import Identity
from ...model.jobs import OnDuplicate
from ...names import MAX_ATTEMPTS, MAX_PRIORITY, MAX_TAGS, MIN_PRIORITY, TAG_BYTES
from ...rules.access import check_within
from ...rules.retry import RetryPolicy
from ...tasks.options import CallOptions
from ...tasks.task import JobRequest, Task
from ..wire.call import Call
from .types import Name, QueueName, Seconds

MOST: Final = 10_000
"""The maximum number of jobs in one call."""
STORABLE: Final = r"^[^\x00]+$"
"""Postgres cannot store text with a NUL character."""
Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TAG_BYTES)]
_Attempts: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_ATTEMPTS)]
_Running: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Year: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
_Reserve: TypeAlias = Annotated[dict[Name, dict[Name, int | float]], msgspec.Meta(max_length=64)]
_Tags: TypeAlias = (
    Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)]
    | Annotated[dict[Tag, Tag | int], msgspec.Meta(max_length=MAX_TAGS)]
)
_Url: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2048, pattern=STORABLE)]


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The delay before each retry, in seconds."""

    kind: Literal["none", "fixed", "exponential"] = "exponential"
    initial: _Year = 2.0
    factor: _Year = 2.0
    cap: _Year = 900.0
    jitter: Literal["none", "full", "additive"] = "additive"
    spread: _Year = 0.25
    max_age: Annotated[float, msgspec.Meta(gt=0)] | None = None


class JobOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options that override those of the task. Durations are in seconds.

    Options left out keep the task's value; null means none: unlimited attempts, no timeout, no rate.
    """

    id: QueueName | None = None
    queue: QueueName | None = None
    priority: Priority | None = None
    delay: Seconds | None = None
    at: Instant | None = None
    deadline: Seconds | Instant | None = None
    timeout: Seconds | msgspec.UnsetType | None = msgspec.UNSET
    max_attempts: _Attempts | msgspec.UnsetType | None = msgspec.UNSET
    retry: RetryRule | msgspec.UnsetType | None = msgspec.UNSET
    tags: _Tags = []
    tenant: Name | None = None
    dedupe_key: Name | None = None
    dedupe_scope: Name | None = None
    dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish"
    on_duplicate: OnDuplicate = "existing"
    concurrency_key: Name | None = None
    concurrency: _Running | None = None
    fair_key: Name | None = None
    weight: Annotated[float, msgspec.Meta(ge=0.01, le=64)] = 1.0
    rate: Name | msgspec.UnsetType | None = msgspec.UNSET
    rate_key: Name | None = None
    breaker: Name | msgspec.UnsetType | None = msgspec.UNSET
    quota: Name | msgspec.UnsetType | None = msgspec.UNSET
    reserve: _Reserve | msgspec.UnsetType | None = msgspec.UNSET
    requires: Annotated[list[QueueName], msgspec.Meta(max_length=256)] | None = None
    affinity: QueueName | msgspec.UnsetType | None = msgspec.UNSET
    version: Name | None = None
    webhook: _Url | None = None
    webhook_events: Annotated[list[Name], msgspec.Meta(max_length=32)] = []


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue. Arguments are given by name, or in the order of the task's parameters."""

    task: Name
    arguments: dict[str, Any] | list[Any] = {}
    options: JobOptions | None = None


class NewJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Jobs to enqueue together: all or none."""

    jobs: Annotated[list[NewJob], msgspec.Meta(min_length=1, max_length=MOST)]
    result_keys: Annotated[bool, msgspec.Meta(description="Include a result key for each job in the response.")] = False


class Awaited(NewJob, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job to enqueue and wait for."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for it to finish.")] = 30.0


def request_of(call: Call, new: NewJob) -> JobRequest[Any]:
    """Return the validated call. Raises UnknownTask if the app does not know the task, unless any name is allowed."""
    request = task_of(call, new.task).read(new.arguments, None if new.options is None else _options(call, new.options))
    _check_confined(call.identity, request)
    return request


def task_of(call: Call, name: str) -> Task[..., Any]:
    """Return the task. Raises UnknownTask if the app does not know it, unless any name is allowed."""
    if (task := call.app.tasks.get(name)) is not None:
        return task
    if not call.settings.any_task:
        raise UnknownTask(
            f"unknown task {name!r}; GET /api/v1/tasks lists the known ones. Declare a task that is implemented "
            "elsewhere with app.declare, or serve with any_task=True to accept every name"
        )
    return call.app.external_task(name)


def _check_confined(identity: Identity, request: JobRequest[Any]) -> None:
    """Raise AccessDenied if the caller is restricted to other queues or tasks."""
    if not identity.is_confined:
        return
    check_within("queue", request.options.queue or request.task.task_options.queue, identity.queues)
    check_within("task", request.task.name, identity.tasks)
    # With the dedupe key of another task it could replace a job of that task.
    scope = request.options.dedupe_scope
    if scope is not None:
        check_within("dedupe scope", scope, (request.task.name,))


def _options(call: Call, given: JobOptions) -> CallOptions:
    said = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}
    # A tenant has its own rates and breakers: its jobs must not hold up those of others.
    said["limits_tenant"] = call.identity.tenant
    if isinstance(given.retry, RetryRule):
        said["retry"] = RetryPolicy(**msgspec.structs.asdict(given.retry))
    return CallOptions(**said)
