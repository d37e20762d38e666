"""Explains why a job is in its state. The first reason is the decisive one; each says what would move the job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..model.jobs import JobRecord, JobState
from ..model.limits import Breaker
from ..model.outbox import PREFIX
from ..model.routing import Grant, Route
from ..model.workers import Worker
from .budgets import Scarcity, scarce
from .bulk import HELD
from .durations import said
from .outbox import why_blocked
from .routing import Reason as Reason
from .routing import able, missing


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job, and the reasons for its state."""

    job: JobRecord
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Upstream:
    """A member of the same flow; without a name and a state where it was deleted."""

    id: str
    name: str | None
    state: str | None
    policy: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The wait of a suspended job. Instants are microseconds."""

    signals: tuple[str, ...]
    needed: int
    """Of those; 0 is one of each."""
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
    """Microseconds until it goes on after a throttle."""
    total: int | None = None
    """The jobs of it that may run at once, over all workers."""
    running: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything the explanation looks at."""

    job: JobRecord
    route: Route
    queue: QueueStands
    workers: Sequence[Worker]
    now: int
    rates: frozenset[str] = frozenset()
    """The scopes that have a token bucket."""
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    upstreams: Sequence[Upstream] = ()
    """Some of those in its flow that it waits for, or that ended otherwise than it asked."""
    rest: Rest | None = None
    scarcity: Scarcity | None = None
    """The budget or quota that it waits for."""
    grant: Grant | None = None


def explain(scene: Scene) -> Explanation:
    """The reasons that hold a job, the strongest first."""
    job = scene.job
    if job.state is JobState.RUNNING:
        return Explanation(job, _running(scene))
    if job.state is JobState.READY:
        return Explanation(job, tuple(_waiting(scene)) or (Reason("claimable", "it can be claimed at any moment"),))
    if job.state is JobState.SUSPENDED and scene.rest is not None:
        return Explanation(job, tuple(_suspended(job, scene.rest, scene.now)))
    if job.state is JobState.BLOCKED and scene.scarcity is not None:
        return Explanation(job, tuple(scarce(scene.scarcity, scene.now)))
    if job.state is JobState.BLOCKED and job.reason == HELD:
        return Explanation(
            job, (Reason("held", f"an operator holds it; let it go with: holdfast jobs release {job.id}"),)
        )
    if job.reason in ("dependencies", "impossible"):
        return Explanation(job, (_dependent(scene),))
    if job.state is JobState.BLOCKED and job.queue.startswith(PREFIX):
        return Explanation(job, (why_blocked(job),))
    if job.state.is_terminal:
        return Explanation(job, (_ended(job, scene.now),))
    return Explanation(job, (Reason(job.state, f"it is {job.state}: {job.reason or 'no reason is recorded'}"),))


def _running(scene: Scene) -> tuple[Reason, ...]:
    job = scene.job
    owner = next((w for w in scene.workers if w.id == job.owner), None)
    if owner is None:
        return (Reason("owner_unknown", f"it runs under worker {job.owner}, which is not registered"),)
    left = owner.lease_until - scene.now
    until = f"whose lease ends in {said(left)}" if left > 0 else f"whose lease ended {said(-left)} ago; rescue is due"
    reasons = [Reason("running", f"it runs on {owner.name} (worker {owner.id}), {until}{_overrun(job, scene.now)}")]
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
        'let it look at ctx.cancelled, or give its task isolate="process"'
    )


def _suspended(job: JobRecord, rest: Rest, now: int) -> list[Reason]:
    reasons = [Reason(job.reason or "suspended", f"waiting {said(now - rest.since)} for {_awaited(rest)}")]
    if job.reason == "escalated":
        reasons.append(Reason("escalated", "nothing came in time, and an operator is to resume or cancel it"))
    if rest.timeout_at is not None:
        left = max(0, rest.timeout_at - now)
        reasons.append(Reason("timeout", f"times out ({rest.on_timeout}s) in {said(left)}"))
    if rest.unread:
        reasons.append(Reason("unread_signals", f"{rest.unread:,} signals in its mailbox do not end the wait"))
    return reasons


def _awaited(rest: Rest) -> str:
    if rest.jobs:
        return "other jobs to end"
    if not rest.signals:
        return "an operator"
    names = ", ".join(repr(name) for name in rest.signals[:5]) + (", …" if len(rest.signals) > 5 else "")
    if rest.needed == 0:
        return f"a signal of each of {names}"
    return f"signal {names}" if rest.needed == len(rest.signals) == 1 else f"{rest.needed} signals of {names}"


def _dependent(scene: Scene) -> Reason:
    shown = ", ".join(
        f"{one.name or one.id} ({one.state or 'deleted'}{', asked to end in any way' if one.policy == 'any' else ''}"
        f"{', asked to fail' if one.policy == 'failure' else ''})"
        for one in scene.upstreams
    )
    if scene.job.state is JobState.BLOCKED:
        return Reason("dependencies", f"it waits for the end of {shown or 'its flow to be applied'}")
    return Reason("skipped", f"it was skipped: what it waited for can no longer be: {shown or 'unknown'}")


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
            Reason("suspect", "its worker was lost twice, or it took its process down; it waits to run apart")
        )
    return reasons + _nobody(scene)


def _held_by_queue(name: str, queue: QueueStands) -> list[Reason]:
    reasons: list[Reason] = []
    if queue.state != "active":
        reasons.append(Reason("queue_" + queue.state, f"queue {name!r} is {queue.state}"))
    if queue.cooling is not None and queue.cooling > 0:
        text = f"queue {name!r} was throttled and hands out nothing for {said(queue.cooling)} more"
        reasons.append(Reason("queue_cooling", text))
    if queue.total is not None and queue.running >= queue.total:
        text = f"{queue.running} jobs of queue {name!r} run, and its total is {queue.total}; it can start when one ends"
        reasons.append(Reason("queue_total", text))
    return reasons


def _parked(scene: Scene) -> Reason:
    kind, _, name = (scene.job.lane or "").partition(":")
    if kind == "rate" and name not in scene.rates and not any(name.startswith(f"{rate}[") for rate in scene.rates):
        return Reason("rate_unknown", f"there is no rate {name!r}; make it with: holdfast limits rate {name} …")
    if kind == "rate":
        return Reason("rate", f"it waits for a token of rate {name!r}")
    if kind == "breaker":
        return _behind_breaker(name, scene.breakers.get(name))
    return Reason("limit", f"as many jobs run as its limit allows ({kind} {name!r})")


def _behind_breaker(name: str, breaker: Breaker | None) -> Reason:
    if breaker is None:
        return Reason("breaker_unknown", f"there is no breaker {name!r}; make it with: holdfast breakers set {name}")
    if breaker.state == "open" and breaker.open_until is not None:
        left = said(breaker.open_until - breaker.now)
        cause = f"after {breaker.failures} failures in a row" if breaker.failures else "by hand"
        return Reason("breaker_open", f"breaker {name!r} opened {cause}; in {left} a single job will try")
    if breaker.trial is not None and breaker.trial_runs:
        return Reason("breaker_open", f"breaker {name!r} waits for job {breaker.trial[0]}, which tries for all")
    return Reason("breaker", f"breaker {name!r} lets jobs go again; this one is about to be")


def _due_later(scene: Scene) -> Reason:
    job = scene.job
    wait = said(job.not_before - scene.now)
    cause = f"({job.reason})" if job.reason else ""
    if job.reason == "retry":
        cause = f"after a failure (attempt {job.attempts} of {job.max_attempts or 'any number'}){_error_of(job)}"
    return Reason("due_later", f"it is due in {wait} {cause}".rstrip())


def _nobody(scene: Scene) -> list[Reason]:
    reason = missing(scene.route, scene.job.task, scene.workers) or _not_loaded(scene)
    return [reason] if reason else []


def _not_loaded(scene: Scene) -> Reason | None:
    """An affinity that nobody has loaded is no lack, but a reason to wait."""
    affinity, there = scene.route.affinity, able(scene.route, scene.job.task, scene.workers)
    loaded = {name for worker in there for name in worker.resident}
    if not affinity or affinity in loaded or scene.job.not_before > scene.now:
        return None
    having = f"they have {', '.join(sorted(loaded))}" if loaded else "they have nothing loaded yet"
    return Reason("affinity", f"no worker that could run it has {affinity!r} loaded; {having}")


def _granted(grant: Grant, now: int) -> Reason:
    left = grant.expires_at - now
    if left <= 0:
        return Reason("grant_expired", f"it was granted to worker {grant.worker}; others get it when one looks")
    return Reason("granted", f"it is granted to worker {grant.worker!r}, and to others only in {said(left)}")


def _ended(job: JobRecord, now: int) -> Reason:
    if job.state is JobState.SUCCEEDED:
        return Reason("succeeded", f"it succeeded in attempt {job.attempts}")
    if job.state is JobState.CANCELLED:
        when = "" if job.cancel_at is None else f", as was asked {said(now - job.cancel_at)} ago"
        return Reason(job.state, f"it was cancelled ({job.reason}){when}")
    if job.state is not JobState.FAILED:
        # An error that is recorded is that of an earlier attempt.
        return Reason(job.state, f"it was {job.state} ({job.reason})")
    return Reason(job.state, f"it failed ({job.reason}){_error_of(job)}")


def _error_of(job: JobRecord) -> str:
    if not job.error:
        return ""
    error = json.loads(job.error)
    return f": {error.get('type')}: {error.get('message')}"
