"""Explain why a job is in its state. The first reason is the decisive one; each says what would move the job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..model.jobs import JobRecord, JobState
from ..model.limits import BreakerRecord
from ..model.outbox import PREFIX
from ..model.routing import Grant, Route
from ..model.workers import WorkerRecord
from ..outcomes import RESERVED_REASONS
from .actions import HELD
from .budgets import Scarcity, scarce
from .durations import said
from .outbox import why_blocked
from .routing import Reason as Reason
from .routing import able, missing


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons for a job's state; the first is the decisive one."""

    id: str
    task: str
    state: JobState
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Upstream:
    """A member of the same flow; without a name and a state if it was deleted."""

    id: str
    name: str | None
    state: str | None
    policy: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The wait of a suspended job. Instants are microseconds."""

    signals: tuple[str, ...]
    needed: int
    """The number of signals that end the wait; 0 is one of each."""
    jobs: bool
    since: int
    timeout_at: int | None
    on_timeout: str
    unread: int
    """Signals in its mailbox that did not end the wait."""


@dataclass(frozen=True, slots=True)
class QueueStands:
    """The state of a queue."""

    state: str = "active"
    cooling: int | None = None
    """Microseconds until it resumes after a throttle."""
    total: int | None = None
    """Its concurrency limit over all workers."""
    running: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the explanation is made from."""

    job: JobRecord
    route: Route
    queue: QueueStands
    workers: Sequence[WorkerRecord]
    now: int
    rates: frozenset[str] = frozenset()
    """The scopes that have a token bucket."""
    breakers: Mapping[str, BreakerRecord] = field(default_factory=dict)
    upstreams: Sequence[Upstream] = ()
    """Some of the members that it waits for, or that did not end as it required."""
    rest: Rest | None = None
    scarcity: Scarcity | None = None
    """The budget or quota that it waits for."""
    grant: Grant | None = None


def explain(scene: Scene) -> Explanation:
    """Explain a job's state."""
    job = scene.job
    return Explanation(id=job.id, task=job.task, state=job.state, reasons=_reasons(scene))


def _reasons(scene: Scene) -> tuple[Reason, ...]:
    """Return the reasons for a job's state, the strongest first."""
    job = scene.job
    if job.state is JobState.RUNNING:
        return _running(scene)
    if job.state is JobState.READY:
        return tuple(_waiting(scene)) or (Reason("claimable", "it can be claimed at any moment"),)
    if job.state is JobState.SUSPENDED and scene.rest is not None:
        return tuple(_suspended(job, scene.rest, scene.now))
    if job.state is JobState.BLOCKED and scene.scarcity is not None:
        return tuple(scarce(scene.scarcity, scene.now))
    if job.state is JobState.BLOCKED and job.reason == HELD:
        return (Reason("held", f"an operator holds it; release it with: holdfast jobs release {job.id}"),)
    if job.reason in ("dependencies", "impossible"):
        return (_dependent(scene),)
    if job.state is JobState.BLOCKED and job.queue.startswith(PREFIX):
        return (why_blocked(job),)
    if job.state.is_terminal:
        return (_ended(job, scene.now),)
    text = f"it is {job.state}: {job.reason or 'no reason is recorded'}{_said_by_handler(job)}"
    return (Reason(job.state, text),)


def _running(scene: Scene) -> tuple[Reason, ...]:
    job = scene.job
    owner = next((w for w in scene.workers if w.id == job.owner), None)
    if owner is None:
        return (Reason("owner_unknown", f"it is running on worker {job.owner}, which is not registered"),)
    left = owner.lease_until - scene.now
    until = f"expires in {said(left)}" if left > 0 else f"expired {said(-left)} ago; rescue is due"
    text = f"it is running on {owner.name} (worker {owner.id}), whose lease {until}{_overrun(job, scene.now)}"
    reasons = [Reason("running", text)]
    if job.cancel_at is not None:
        reasons.append(Reason("cancel_requested", f"a cancel was requested {said(scene.now - job.cancel_at)} ago"))
    return tuple(reasons)


def _overrun(job: JobRecord, now: int) -> str:
    """Say that a run is past its timeout, which ends a coroutine or a process but not a thread."""
    if job.timeout is None or job.claimed_at is None or now <= job.claimed_at + job.timeout:
        return ""
    over = said(now - job.claimed_at - job.timeout)
    return (
        f"; it is {over} past its timeout of {said(job.timeout)}: a `def` runs on a thread, which cannot be stopped; "
        'make it check ctx.cancelled, or give its task isolate="process"'
    )


def _suspended(job: JobRecord, rest: Rest, now: int) -> list[Reason]:
    reasons = [Reason(job.reason or "suspended", f"waiting {said(now - rest.since)} for {_awaited(rest)}")]
    if job.reason == "escalated":
        reasons.append(Reason("escalated", "nothing came in time; an operator must resume or cancel it"))
    if rest.timeout_at is not None:
        left = max(0, rest.timeout_at - now)
        reasons.append(Reason("timeout", f"times out ({rest.on_timeout}s) in {said(left)}"))
    if rest.unread:
        unread = "1 signal in its mailbox does" if rest.unread == 1 else f"{rest.unread:,} signals in its mailbox do"
        reasons.append(Reason("unread_signals", f"{unread} not end the wait"))
    return reasons


def _awaited(rest: Rest) -> str:
    if rest.jobs:
        return "other jobs to end"
    if not rest.signals:
        return "an operator"
    names = ", ".join(repr(name) for name in rest.signals[:5]) + (", …" if len(rest.signals) > 5 else "")
    if rest.needed == 0:
        return f"one signal each of {names}"
    return f"signal {names}" if rest.needed == len(rest.signals) == 1 else f"{rest.needed} signals of {names}"


def _dependent(scene: Scene) -> Reason:
    shown = ", ".join(
        f"{one.name or one.id} ({one.state or 'deleted'}{', required to end' if one.policy == 'any' else ''}"
        f"{', required to fail' if one.policy == 'failure' else ''})"
        for one in scene.upstreams
    )
    if scene.job.state is JobState.BLOCKED:
        return Reason("dependencies", f"it is waiting for {shown or 'its flow to be applied'}")
    return Reason("skipped", f"it was skipped, because its dependencies can no longer be met: {shown or 'unknown'}")


def _waiting(scene: Scene) -> list[Reason]:
    job, reasons = scene.job, []
    if job.not_before > scene.now:
        reasons.append(_due_later(scene))
    reasons += _held_by_queue(job.queue, scene.queue)
    if job.due == 2:
        reasons += scarce(scene.scarcity, scene.now) if scene.scarcity is not None else [_parked(scene)]
    if scene.grant is not None:
        reasons.append(_granted(scene.grant, scene.now))
    if job.suspect:
        reasons.append(
            Reason("suspect", "its worker was lost twice, or it crashed its process; it is waiting to run in isolation")
        )
    return reasons + _no_worker(scene)


def _held_by_queue(name: str, queue: QueueStands) -> list[Reason]:
    reasons: list[Reason] = []
    if queue.state != "active":
        reasons.append(Reason("queue_" + queue.state, f"queue {name!r} is {queue.state}"))
    if queue.cooling is not None and queue.cooling > 0:
        text = f"queue {name!r} was throttled and starts no jobs for another {said(queue.cooling)}"
        reasons.append(Reason("queue_cooling", text))
    if queue.total is not None and queue.running >= queue.total:
        text = f"queue {name!r} runs {queue.running} jobs, and its total is {queue.total}; it can start when one ends"
        reasons.append(Reason("queue_total", text))
    return reasons


def _parked(scene: Scene) -> Reason:
    kind, _, name = (scene.job.lane or "").partition(":")
    if kind == "rate" and name not in scene.rates and not any(name.startswith(f"{rate}[") for rate in scene.rates):
        return Reason("rate_unknown", f"there is no rate {name!r}; create it with: holdfast limits rate {name} …")
    if kind == "rate":
        return Reason("rate", f"it is waiting for a token of rate {name!r}")
    if kind == "breaker":
        return _behind_breaker(name, scene.breakers.get(name))
    return Reason("limit", f"as many jobs are running as its limit allows ({kind} {name!r})")


def _behind_breaker(name: str, breaker: BreakerRecord | None) -> Reason:
    if breaker is None:
        return Reason("breaker_unknown", f"there is no breaker {name!r}; create it with: holdfast breakers set {name}")
    if breaker.state == "open" and breaker.open_until is not None:
        left = said(breaker.open_until - breaker.now)
        cause = f"after {breaker.failures} failures in a row" if breaker.failures else "by hand"
        return Reason("breaker_open", f"breaker {name!r} opened {cause}; in {left} one job will be tried")
    if breaker.trial is not None and breaker.trial_runs:
        return Reason("breaker_open", f"breaker {name!r} is half open and waits for its trial, job {breaker.trial[0]}")
    return Reason("breaker", f"breaker {name!r} is closed again; this job is about to be released")


def _due_later(scene: Scene) -> Reason:
    job = scene.job
    wait = said(job.not_before - scene.now)
    cause = f"({job.reason})" if job.reason else ""
    if job.reason == "retry":
        cause = f"after a failure (attempt {job.attempts} of {job.max_attempts or 'any number'}){_error_of(job)}"
    return Reason("due_later", f"it is due in {wait} {cause}".rstrip())


def _no_worker(scene: Scene) -> list[Reason]:
    reason = missing(scene.route, scene.job.task, scene.workers) or _not_loaded(scene)
    return [reason] if reason else []


def _not_loaded(scene: Scene) -> Reason | None:
    """Return the wait for an affinity that no worker has loaded: any of them could still load it."""
    affinity, there = scene.route.affinity, able(scene.route, scene.job.task, scene.workers)
    loaded = {name for worker in there for name in worker.resident}
    if not affinity or affinity in loaded or scene.job.not_before > scene.now:
        return None
    having = f"they have {', '.join(sorted(loaded))}" if loaded else "they have nothing loaded yet"
    return Reason("affinity", f"no worker that could run it has {affinity!r} loaded; {having}")


def _granted(grant: Grant, now: int) -> Reason:
    left = grant.expires_at - now
    if left <= 0:
        text = f"its grant to worker {grant.worker!r} expired; any worker can claim it at its next poll"
        return Reason("grant_expired", text)
    return Reason("granted", f"it is granted to worker {grant.worker!r}; others can claim it in {said(left)}")


def _ended(job: JobRecord, now: int) -> Reason:
    if job.state is JobState.SUCCEEDED:
        return Reason("succeeded", f"it succeeded in attempt {job.attempts}")
    if job.state is JobState.CANCELLED:
        when = "" if job.cancel_at is None else f", as requested {said(now - job.cancel_at)} ago"
        return Reason(job.state, f"it was cancelled ({job.reason}){when}")
    if job.state is not JobState.FAILED:
        # A recorded error is that of an earlier attempt.
        return Reason(job.state, f"it was {job.state} ({job.reason})")
    return Reason(job.state, f"it failed ({job.reason}){_error_of(job)}")


def _said_by_handler(job: JobRecord) -> str:
    """Return the message with which a handler parked the job."""
    if job.state is not JobState.BLOCKED or job.reason in RESERVED_REASONS or not job.error:
        return ""
    message = json.loads(job.error).get("message")
    return f": {message}" if message else ""


def _error_of(job: JobRecord) -> str:
    if not job.error:
        return ""
    error = json.loads(job.error)
    return f": {error.get('type')}: {error.get('message')}"
