"""From a call to the job that is stored: options of the call over those of the task, each checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec.structs import replace

from ..errors import InvalidInput
from ..ids import ids
from ..model.job import Dedupe, Fair, JobSpec
from ..model.limits import JobLimits, key_lane
from ..model.route import Route
from ..names import (
    check_affinity,
    check_attempts,
    check_capabilities,
    check_duration,
    check_id,
    check_instant,
    check_limit,
    check_name,
    check_priority,
    check_queue,
    check_tags,
)  # fmt: skip
from ..options import CallOptions, TaskOptions
from ..rules.amounts import check_reserve
from ..rules.retry import check_policy
from ..rules.versions import check_range, pin
from ..rules.webhooks import call_tags, called_endpoint, check_call_kinds
from ..tasks import JobRequest

_ROUTES: dict[tuple[str, frozenset[str], str, str], Route] = {}
_MOST_ROUTES: Final = 10_000


def spec_of(request: JobRequest[Any], *, tenant: str = "", id: str | None = None, trace: str | None = None) -> JobSpec:
    """The job for a request. `tenant` is used where the request names none."""
    draft = _draft(request, tenant)
    return replace(draft, id=draft.id or id or ids.new(), payload=request.payload, trace=trace)


def _draft(request: JobRequest[Any], tenant: str) -> JobSpec:
    """What all calls of a task with the same options have in common: checked once, which takes 3 µs, not for each."""
    task = request.task
    if request.options is not task.call_options:
        return _checked(request, tenant)
    # Read once: another thread may put another tenant's in its place at any time.
    draft = task.draft
    if draft is None or draft[0] != tenant:
        draft = task.draft = (tenant, _checked(request, tenant))
    return draft[1]


def _checked(request: JobRequest[Any], tenant: str) -> JobSpec:
    call, task = request.options, request.task.task_options
    retry = check_policy(call.retry) or task.retry
    webhook, heard = _webhook(call, tenant)
    return JobSpec(
        id=check_id(call.id) if call.id is not None else "",
        explicit_id=call.id is not None,
        task=request.task.name,
        route=_route(request),
        payload="",
        tenant=check_name("tenant", call.tenant) if call.tenant is not None else tenant,
        priority=task.priority if call.priority is None else check_priority(call.priority),
        max_attempts=check_attempts(task.max_attempts if call.max_attempts is None else call.max_attempts),
        retry=retry.encode() if retry else None,
        timeout=_timeout(call, task),
        dedupe=_dedupe(call, request.task.name),
        tags=json.dumps(check_tags((*call.tags, *heard))) if call.tags or heard else None,
        webhook=webhook,
        limits=_limits(call, task, tenant),
        fair=_fair(call),
        **_start(call),
        **_deadline(call),
    )


def _route(request: JobRequest[Any]) -> Route:
    call, task = request.options, request.task.task_options
    key = (
        task.queue if call.queue is None else check_queue(call.queue),
        task.requires if call.requires is None else _requires(task.requires, call.requires),
        (task.affinity or "") if call.affinity is None else check_affinity(call.affinity),
        "" if call.version is None else pin(request.task.name, check_range(call.version)),
    )
    # A route's number is a hash: made once per combination, not once per job.
    if (route := _ROUTES.get(key)) is None:
        if len(_ROUTES) >= _MOST_ROUTES:
            _ROUTES.clear()
        route = _ROUTES[key] = Route(*key)
    return route


def _requires(task: frozenset[str], call: Sequence[str]) -> frozenset[str]:
    return check_capabilities("requires", task | check_capabilities("requires", call))


def _limits(call: CallOptions, task: TaskOptions, tenant: str) -> str | None:
    rate, breaker = _scope("rate", call.rate or task.rate), _scope("breaker", call.breaker or task.breaker)
    reserve, quota = check_reserve(call.reserve or task.reserve), _scope("quota", call.quota or task.quota)
    if call.concurrency_key is None:
        if call.concurrency is not None:
            raise InvalidInput("concurrency in a call needs a concurrency_key; for a whole task give it to @app.task")
        if not (rate or breaker or reserve or quota):
            return None
        return JobLimits(rate=rate, breaker=breaker, reserve=reserve, quota=quota).encode()
    if call.concurrency is None:
        raise InvalidInput("concurrency_key needs concurrency=, the number of jobs with that key that may run at once")
    key = key_lane(call.tenant or tenant, check_name("concurrency_key", call.concurrency_key))
    return JobLimits(key, check_limit("concurrency", call.concurrency), rate, breaker, reserve, quota).encode()


def _scope(what: str, name: str | None) -> str | None:
    return check_name(what, name) if name is not None else None


def _webhook(call: CallOptions, tenant: str) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """The endpoint that hears of the job, and the tags that say so."""
    if call.webhook is None:
        if call.webhook_events:
            raise InvalidInput("webhook_events needs a webhook, the URL that is told of them")
        return None, ()
    endpoint = called_endpoint(tenant if call.tenant is None else call.tenant, call.webhook)
    kinds = check_call_kinds(call.webhook_events) if call.webhook_events else ()
    return (endpoint, call.webhook), call_tags(endpoint, kinds)


def _fair(call: CallOptions) -> Fair | None:
    if call.fair_key is None:
        if call.weight != 1.0:
            raise InvalidInput("weight needs a fair_key")
        return None
    if not 0.01 <= call.weight <= 64:
        raise InvalidInput(f"weight is {call.weight}; use 0.01 to 64")
    return Fair(check_name("fair_key", call.fair_key), float(call.weight))


def _start(call: CallOptions) -> dict[Literal["at", "delay"], Any]:
    if call.at is not None and call.delay is not None:
        raise InvalidInput("give either delay or at, not both")
    if call.at is not None:
        return {"at": check_instant("at", call.at)}
    return {"delay": check_duration("delay", call.delay)} if call.delay is not None else {}


def _deadline(call: CallOptions) -> dict[Literal["deadline", "deadline_at"], Any]:
    if isinstance(call.deadline, datetime):
        return {"deadline_at": check_instant("deadline", call.deadline)}
    return {"deadline": check_duration("deadline", call.deadline)} if call.deadline is not None else {}


def _timeout(call: CallOptions, task: TaskOptions) -> int | None:
    timeout = task.timeout if call.timeout is None else call.timeout
    if timeout is None:
        return None
    micros = check_duration("timeout", timeout)
    if micros == 0:
        raise InvalidInput("timeout is 0; give more seconds, or leave it out for no timeout")
    return micros


def _dedupe(call: CallOptions, task: str) -> Dedupe | None:
    if call.dedupe_key is None:
        if call.dedupe_until != "finish" or call.dedupe_scope is not None or call.on_duplicate != "existing":
            raise InvalidInput("dedupe_until, dedupe_scope and on_duplicate need a dedupe_key")
        return None
    if call.on_duplicate not in ("existing", "replace", "raise"):
        raise InvalidInput(f"on_duplicate is {call.on_duplicate!r}; use 'existing', 'replace' or 'raise'")
    until, window = _until(call.dedupe_until)
    return Dedupe(
        key=check_name("dedupe_key", call.dedupe_key),
        scope=task if call.dedupe_scope is None else check_name("dedupe_scope", call.dedupe_scope),
        until=until,
        window=window,
        on_duplicate=call.on_duplicate,
    )


def _until(given: Any) -> tuple[Literal["start", "failure", "finish", "window"], int]:
    if given in ("start", "failure", "finish"):
        return given, 0
    if isinstance(given, str):
        raise InvalidInput(f"dedupe_until is {given!r}; use 'start', 'failure', 'finish' or a number of seconds")
    window = check_duration("dedupe_until", given)
    if window == 0:
        raise InvalidInput("dedupe_until is 0 seconds; give a longer window, or 'start'")
    return "window", window
