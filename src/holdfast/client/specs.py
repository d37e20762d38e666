"""Make the stored job from a call: options of the call override those of the task, and each is checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ..errors import ConfigError, InvalidInput
from ..ids import ids
from ..model.jobs import Dedupe, Fair, Hook, JobSpec
from ..model.limits import JobLimits, key_lane, keyed_scope, tenant_breaker
from ..model.routing import Route
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
from ..rules.budgets import check_reserve
from ..rules.limits import check_rate_name, rate_scope
from ..rules.reserved import check_creator, check_open_queue, check_open_scope, check_open_task
from ..rules.retry import check_policy
from ..rules.routing import task_capability
from ..rules.versions import check_range, pin
from ..rules.webhooks import call_tags, called_endpoint, check_call_kinds
from ..tasks.destinations import Destination
from ..tasks.options import CallOptions, Hooks, TaskOptions
from ..tasks.task import Draft, JobRequest, Task
from ..tasks.tenants import creator

_ROUTES: dict[tuple[str, frozenset[str], str, str], Route] = {}
_MOST_ROUTES: Final = 10_000
_HOOKED: Final = ("state", "reason", "result", "error")
"""The facts of an ended job that a hook may take, besides its id."""
_TITLE_BYTES: Final = 256
_On: TypeAlias = Literal["success", "failure", "end"]


def spec_of(request: JobRequest[Any], *, tenant: str = "", id: str | None = None, trace: str | None = None) -> JobSpec:
    """Return the job for a request. `tenant` is used if the request names none."""
    task = request.task
    # The shared part of all calls of a task with the same options, checked only once.
    # Read once: another thread may replace it with another tenant's at any time.
    draft = task.draft
    if draft is None or draft.tenant != tenant or draft.options is not request.options:
        draft = Draft(request.options, tenant, _checked(request, tenant))
        if request.options is task.call_options:
            task.draft = draft
    spec = draft.spec
    made_by = request.options.created_by or creator()
    return replace(spec, id=spec.id or id or ids.new(), payload=request.payload, trace=trace, created_by=made_by)


def _checked(request: JobRequest[Any], tenant: str) -> JobSpec:
    call, task = request.options, request.task.task_options
    if not isinstance(request.task, Destination):
        check_open_task(request.task.name)
        check_open_queue(task.queue if call.queue is None else check_queue(call.queue))
    retry = task.retry if call.retry is ... else check_policy(call.retry)
    webhook, event_tags = _webhook(call, tenant)
    return JobSpec(
        id=check_id(call.id) if call.id is not None else "",
        explicit_id=call.id is not None,
        task=request.task.name,
        route=_route(request),
        payload="",
        tenant=check_name("tenant", call.tenant) if call.tenant is not None else tenant,
        priority=task.priority if call.priority is None else check_priority(call.priority),
        max_attempts=check_attempts(task.max_attempts if call.max_attempts is ... else call.max_attempts),
        retry=retry.encode() if retry else None,
        timeout=_timeout(call, task),
        dedupe=_dedupe(call, request.task.name),
        tags=_tags(call, event_tags),
        webhook=webhook,
        limits=_limits(call, task, tenant, request.task.name),
        hooks=_hooks(task, tenant if call.tenant is None else call.tenant),
        fair=_fair(call),
        created_by="engine" if call.created_by is None else check_creator(call.created_by),
        title=None if call.title is None else check_name("title", call.title, limit=_TITLE_BYTES),
        **_times(call),
    )


def _tags(call: CallOptions, event_tags: Sequence[str]) -> str | None:
    if call.tags == () and not event_tags:
        return None
    tags = check_tags((*check_tags(call.tags), *event_tags))
    return json.dumps(tags) if tags else None


def _route(request: JobRequest[Any]) -> Route:
    call, task = request.options, request.task.task_options
    requires = task.requires if call.requires is None else _requires(task.requires, call.requires)
    if task.batch is not None:
        # A route of their own: a worker claims a batch of them at once, and nothing else.
        requires |= {task_capability(request.task.name)}
        if call.affinity is not ... and call.affinity is not None:
            raise InvalidInput(f"task {request.task.name!r} takes batches of jobs with any affinity; leave it out")
    key = (
        task.queue if call.queue is None else check_queue(call.queue),
        requires,
        task.affinity or "" if call.affinity is ... else "" if call.affinity is None else check_affinity(call.affinity),
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


def _limits(call: CallOptions, task: TaskOptions, tenant: str, name: str) -> str | None:
    rate = _scope(
        "rate", check_rate_name(call.rate) if call.rate is not ... else task.rate and rate_scope(name, task.rate)
    )
    breaker = _breaker(call, task)
    quota = _scope("quota", task.quota if call.quota is ... else call.quota)
    reserve = check_reserve(task.reserve if call.reserve is ... else call.reserve)
    keyed = _keyed(call, rate, tenant)
    key, capacity = _lane(call, tenant)
    if not (key or rate or breaker or reserve or quota):
        return None
    own = bool(call.limits_tenant)
    return JobLimits(
        key, capacity, rate, breaker, reserve, quota, keyed,
        own_reserve=own and bool(reserve) and call.reserve is not ...,
        own_quota=own and bool(quota) and call.quota is not ...,
    ).encode()  # fmt: skip


def _lane(call: CallOptions, tenant: str) -> tuple[str | None, int | None]:
    """Return the lane of the call's concurrency key, and its limit."""
    if call.concurrency_key is None:
        if call.concurrency is not None:
            raise InvalidInput("concurrency in a call needs a concurrency_key; for a whole task give it to @app.task")
        return None, None
    if call.concurrency is None:
        raise InvalidInput("concurrency_key needs concurrency=, the number of jobs with that key that may run at once")
    named = check_open_scope("concurrency_key", check_name("concurrency_key", call.concurrency_key))
    return key_lane(call.tenant or tenant, named), check_limit("concurrency", call.concurrency)


def _keyed(call: CallOptions, rate: str | None, tenant: str) -> str | None:
    """Return the scope of the bucket for the call's rate key, or for a confined caller that names the rate."""
    if call.rate_key is None:
        is_named = call.rate is not ... and bool(call.limits_tenant)
        return keyed_scope(rate, call.limits_tenant, "") if rate and is_named else None
    if rate is None:
        raise InvalidInput("rate_key needs a rate, in the call or at @app.task: rate=app.rate(…)")
    return keyed_scope(rate, tenant if call.tenant is None else call.tenant, check_name("rate_key", call.rate_key))


def _breaker(call: CallOptions, task: TaskOptions) -> str | None:
    name = _scope("breaker", task.breaker if call.breaker is ... else call.breaker)
    if name is None:
        return None
    check_open_scope("breaker", name)
    return tenant_breaker(call.limits_tenant, name) if call.breaker is not ... and call.limits_tenant else name


def _scope(what: str, name: str | None) -> str | None:
    return check_name(what, name) if name is not None else None


def _webhook(call: CallOptions, tenant: str) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """Return the endpoint that is notified of the job, and the tags that name it."""
    if call.webhook is None:
        if call.webhook_events:
            raise InvalidInput("webhook_events needs a webhook, the URL that is notified")
        return None, ()
    endpoint = called_endpoint(tenant if call.tenant is None else call.tenant, call.webhook)
    kinds = check_call_kinds(call.webhook_events) if call.webhook_events else ()
    return (endpoint, call.webhook), call_tags(endpoint, kinds)


def hooks_of(task: TaskOptions) -> list[tuple[_On, Task[Any, Any], str, list[str]]]:
    """Return each hook of a task, its trigger and its arguments; ConfigError if it cannot be called."""
    found: list[tuple[_On, Task[Any, Any], str, list[str]]] = []
    hooks: dict[_On, Hooks] = {"success": task.on_success, "failure": task.on_failure, "end": task.on_end}
    for on, given in hooks.items():
        for hook in given if isinstance(given, (list, tuple)) else (given,):
            if not isinstance(hook, Task):
                raise ConfigError(
                    f"on_{on} is {_hook_text(hook)}; give a task itself, made by @app.task, or a list of tasks"
                )
            asked = hook.call_options
            if asked.id is not None or asked.dedupe_key is not None or asked.connection is not None:
                raise ConfigError(f"on_{on} cannot have an id, a dedupe_key or a connection; leave it out of options()")
            found.append((on, hook, *hook.signature.as_hook(_HOOKED)))
    return found


def _hook_text(hook: object) -> str:
    return f"the function {hook.__name__!r}" if isinstance(hook, FunctionType) else repr(hook)


def _hooks(task: TaskOptions, tenant: str) -> str | None:
    found = [
        Hook(on=on, spec=_checked(JobRequest(hook, "", hook.call_options), tenant), takes=takes, wants=tuple(wants))
        for on, hook, takes, wants in hooks_of(task)
    ]
    return msgspec.json.encode(found).decode() if found else None


def _fair(call: CallOptions) -> Fair | None:
    if call.fair_key is None:
        if call.weight != 1.0:
            raise InvalidInput("weight needs a fair_key")
        return None
    if not 0.01 <= call.weight <= 64:
        raise InvalidInput(f"weight is {call.weight}; use 0.01 to 64")
    return Fair(check_name("fair_key", call.fair_key), float(call.weight))


def _times(call: CallOptions) -> dict[str, Any]:
    start, end = _start(call), _deadline(call)
    if start and end:
        for begins, ends in (("delay", "deadline"), ("at", "deadline_at")):
            if 0 < end.get(ends, 0) < start.get(begins, 0):
                raise InvalidInput(f"the deadline comes before the job may start ({begins}=); give a later deadline")
    return {**start, **end}


def _start(call: CallOptions) -> dict[str, Any]:
    if call.at is not None and call.delay is not None:
        raise InvalidInput("give either delay or at, not both")
    if call.at is not None:
        return {"at": check_instant("at", call.at)}
    return {"delay": check_duration("delay", call.delay)} if call.delay is not None else {}


def _deadline(call: CallOptions) -> dict[str, Any]:
    if isinstance(call.deadline, datetime):
        return {"deadline_at": check_instant("deadline", call.deadline)}
    return {"deadline": check_duration("deadline", call.deadline)} if call.deadline is not None else {}


def _timeout(call: CallOptions, task: TaskOptions) -> int | None:
    timeout = task.timeout if call.timeout is ... else call.timeout
    if timeout is None:
        return None
    return check_duration("timeout", timeout, above_zero=True)


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
