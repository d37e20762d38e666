"""Options of jobs: those of a task for all of its jobs, and those of one call."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..errors import ConfigError, UnknownOption
from ..model.jobs import OnDuplicate
from ..names import (
    check_affinity,
    check_attempts,
    check_capabilities,
    check_duration,
    check_limit,
    check_name,
    check_priority,
    check_queue,
)
from ..rules.budgets import Amounts, check_reserve
from ..rules.retry import RetryPolicy, check_policy
from ..rules.versions import check_version

if TYPE_CHECKING:
    from .inventory import Inventory
    from .task import Task

Hooks: TypeAlias = "Task[Any, Any] | Sequence[Task[Any, Any]]"
Seconds: TypeAlias = "float | timedelta"
Tags: TypeAlias = "Sequence[str] | Mapping[str, str | int]"
"""Texts, or values by key, which are stored as "key=value"."""
Isolate: TypeAlias = Literal["process"]
Captured: TypeAlias = Literal["stdout", "stderr", "logs"]


_LARGEST_BATCH: Final = 1_000
_LONGEST_WAIT: Final = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of a task's jobs, unless a call overrides them."""

    queue: str = "default"
    priority: int = 0
    max_attempts: int | None = 5
    """Total runs, including the first; None is without limit."""
    retry: RetryPolicy | None = None
    timeout: Seconds | None = None
    """Limit of one run. A coroutine is cancelled, a thread is asked to stop, a process is killed."""
    isolate: Isolate | None = None
    batch: int | None = None
    """Most jobs that one call of the handler takes; None: each job has a call of its own."""
    wait: Seconds = 0
    """Time for which a worker collects jobs for a batch that is not full."""
    capture: Sequence[Captured] = ()
    """Outputs of a run that become frames of its stream: "stdout", "stderr", "logs"."""
    concurrency: int | None = None
    """Jobs of this task that run at once, across all workers."""
    rate: str | None = None
    """Scope of a token bucket created by `app.rate`; each run takes a token of it."""
    breaker: str | None = None
    """Scope of a circuit breaker created by `app.breaker`; while that is open, no job runs."""
    reserve: Mapping[str, Amounts] | None = None
    """Amounts that each run reserves before it starts, by budget and dimension."""
    quota: str | None = None
    """Quota that must admit each run."""
    requires: frozenset[str] = frozenset()
    """Capabilities that a worker must have."""
    affinity: str | None = None
    """The name that its jobs prefer to find loaded: a worker that has it runs them before others."""
    version: str | None = None
    """Version of this code, such as "2.1": jobs may ask for a range of versions."""
    inventory: Inventory | None = None
    """Inventory in which each job's affinity is looked up when it is enqueued."""
    no_retry_on: tuple[type[BaseException], ...] = ()
    """Exceptions that are not retried."""
    on_success: Hooks = ()
    """Tasks enqueued with the id of a job that has succeeded, in the commit that records it."""
    on_failure: Hooks = ()
    """Tasks enqueued for a job that has failed permanently, or expired; see `on_success`."""
    on_end: Hooks = ()
    """Tasks enqueued for every end, including cancelled and skipped jobs; see `on_success`."""

    def __post_init__(self) -> None:
        check_queue(self.queue)
        check_priority(self.priority)
        check_attempts(self.max_attempts)
        check_policy(self.retry)
        if self.timeout is not None:
            check_duration("timeout", self.timeout, above_zero=True)
        if self.concurrency is not None:
            check_limit("concurrency", self.concurrency)
        for what, name in (("rate", self.rate), ("breaker", self.breaker), ("quota", self.quota)):
            if name is not None:
                check_name(what, name)
        _check_exceptions(self.no_retry_on)
        check_reserve(self.reserve)
        check_capabilities("requires", self.requires)
        if self.affinity is not None:
            check_affinity(self.affinity)
        if self.version is not None:
            check_version(self.version)
        if isinstance(self.capture, str) or not set(self.capture) <= {"stdout", "stderr", "logs"}:
            raise ConfigError(f"capture is {self.capture!r}; use any of ('stdout', 'stderr', 'logs')")
        _check_batch(self)
        if self.isolate not in (None, "process"):
            raise ConfigError(f"isolate is {self.isolate!r}; use 'process', or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Options of one call, which override those of its task.

    `...` keeps the task's option; None turns it off: attempts without limit, no timeout, no rate.
    """

    id: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay: Seconds | None = None
    at: datetime | None = None
    max_attempts: int | EllipsisType | None = ...
    timeout: Seconds | EllipsisType | None = ...
    deadline: Seconds | datetime | None = None
    retry: RetryPolicy | EllipsisType | None = ...
    dedupe_key: str | None = None
    dedupe_scope: str | None = None
    dedupe_until: Literal["start", "failure", "finish"] | Seconds = "finish"
    on_duplicate: OnDuplicate = "existing"
    tenant: str | None = None
    tags: Tags = ()
    title: str | None = None
    """Title for people, such as "Invoice 4711 of Ada", shown with the job."""
    concurrency_key: str | None = None
    concurrency: int | None = None
    fair_key: str | None = None
    weight: float = 1.0
    rate: str | EllipsisType | None = ...
    rate_key: str | None = None
    breaker: str | EllipsisType | None = ...
    limits_tenant: str = ""
    """Tenant that the caller is confined to: the call names that tenant's rate, breaker, budgets and quota."""
    reserve: Mapping[str, Amounts] | EllipsisType | None = ...
    quota: str | EllipsisType | None = ...
    requires: Sequence[str] | None = None
    affinity: str | EllipsisType | None = ...
    version: str | None = None
    webhook: str | None = None
    webhook_events: Sequence[str] = ()
    created_by: str | None = None
    """Creator stored with the job; None is the job that runs here, the caller of a request, or `code`."""
    connection: object | None = None


def _check_batch(options: TaskOptions) -> None:
    if options.batch is None:
        if check_duration("wait", options.wait):
            raise ConfigError("wait is for tasks that take batches, such as @app.task(batch=100, wait=0.5)")
        return
    if check_limit("batch", options.batch) > _LARGEST_BATCH:
        raise ConfigError(f"batch is {options.batch}; use 1 to {_LARGEST_BATCH:,}")
    if check_duration("wait", options.wait) > _LONGEST_WAIT:
        raise ConfigError(f"wait is {options.wait} s; a worker holds claimed jobs meanwhile: use up to 60 s")
    if options.capture:
        raise ConfigError("capture is not for batches, whose output belongs to no single job; leave it out")
    if options.affinity is not None or options.inventory is not None:
        raise ConfigError("affinity and inventory are not for batches, which mix jobs; leave them out")


def _check_exceptions(given: object) -> None:
    kinds = given if isinstance(given, (tuple, list)) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise ConfigError(f"no_retry_on is {given!r}; give a tuple of exceptions, such as (ValueError,)")


CALL_OPTIONS: Final = tuple(field.name for field in fields(CallOptions))
TASK_OPTIONS: Final = ("name", *(field.name for field in fields(TaskOptions)))

_CALLED_ELSEWHERE: Final = {
    **dict.fromkeys(("retries", "max_retries", "max_tries"), "max_attempts, which counts the first run too"),
    **dict.fromkeys(
        ("retry_backoff", "retry_delay", "default_retry_delay", "backoff"),
        "retry=holdfast.fixed(…) or holdfast.exponential(…)",
    ),
    **dict.fromkeys(
        ("autoretry_for", "retry_on", "retry_for"), "no_retry_on for what is not retried; any other exception is"
    ),
    **dict.fromkeys(("dont_autoretry_for", "throws", "permanent_on"), "no_retry_on"),
    **dict.fromkeys(("bind", "pass_context"), "a first parameter with the annotation holdfast.Context or SyncContext"),
    **dict.fromkeys(("queue_name", "routing_key"), "queue"),
    **dict.fromkeys(("countdown", "wait", "defer_by", "schedule_in"), "delay"),
    **dict.fromkeys(("eta", "run_at", "schedule_at", "scheduled_at", "when"), "at"),
    **dict.fromkeys(("expires", "expiry", "expire", "ttl"), "deadline"),
    **dict.fromkeys(("time_limit", "soft_time_limit", "job_timeout", "max_age"), "timeout"),
    **dict.fromkeys(("rate_limit", "throttle"), 'rate, such as rate="10/s"'),
    **dict.fromkeys(("unique", "unique_key", "lock", "singleton", "queueing_lock", "job_key", "key"), "dedupe_key"),
    **dict.fromkeys(("task_id", "job_id"), "id"),
    **dict.fromkeys(("max_concurrency", "max_instances"), "concurrency"),
    **dict.fromkeys(("metadata", "meta", "labels", "headers"), "tags"),
    "description": "title",
    "at_front": "priority",
    "link": "on_success",
    "link_error": "on_failure",
    **dict.fromkeys(("depends_on", "chord"), "a flow: with app.flow(…)"),
    **dict.fromkeys(("args", "kwargs"), "the arguments of .enqueue(…)"),
    **dict.fromkeys(("eager", "always_eager"), "app.inline()"),
}
_NOT_NEEDED: Final = {
    **dict.fromkeys(("acks_late", "reject_on_worker_lost"), "a job of a lost worker always runs again"),
    **dict.fromkeys(("ignore_result", "store_results"), "a result is stored with its job, and pruned with it"),
}


_OF_A_CALL: Final = "an option of one call: task.options({}=…).enqueue(…)"
_OF_A_TASK: Final = "an option of the task: @app.task({}=…)"
_CLOSE: Final = 0.7
"""Similarity from which a name counts as misspelt; less gives guesses such as tags for args."""


def unknown_option(where: str, given: Iterable[str], known: Sequence[str]) -> UnknownOption:
    """Return the error for options that `where` does not have, with a hint for the first of them."""
    name = next(iter(given))
    if name in _NOT_NEEDED:
        hint = f"leave it out: {_NOT_NEEDED[name]}"
    elif name in _CALLED_ELSEWHERE:
        hint = f"use {_CALLED_ELSEWHERE[name]}{_place_of(_CALLED_ELSEWHERE[name], known)}"
    elif name in CALL_OPTIONS and known is not CALL_OPTIONS:
        hint = f"it is {_OF_A_CALL.format(name)}"
    elif name in TASK_OPTIONS and known is not TASK_OPTIONS:
        hint = f"it is {_OF_A_TASK.format(name)}"
    elif close := difflib.get_close_matches(name, known, 1, _CLOSE):
        hint = f"did you mean {close[0]!r}?"
    else:
        hint = f"it has {', '.join(known)}"
    return UnknownOption(f"{where} has no option {name!r}; {hint}")


def _place_of(text: str, known: Sequence[str]) -> str:
    """Return where the option that a hint begins with belongs, if that is another place."""
    name = re.split(r"\W", text, maxsplit=1)[0]
    if name in known:
        return ""
    if name in CALL_OPTIONS:
        return f", {_OF_A_CALL.format(name)}"
    return f"; it is {_OF_A_TASK.format(name)}" if name in TASK_OPTIONS else ""
