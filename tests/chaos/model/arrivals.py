"""How jobs come in: new, known by their id, or known by their dedupe key."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from holdfast.errors import DuplicateJob, IdTaken, QueueClosed
from holdfast.model.jobs import Enqueued, JobSpec
from holdfast.model.limits import JobLimits
from holdfast.rules.lifecycle import Event

from . import links
from .state import Job, Model, S


def enqueue(model: Model, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """All of them, or none where one is refused."""
    if len(specs) == 1 and specs[0].dedupe is None:
        return _enqueue(model, specs)  # it is refused before anything is done
    trial = copy.deepcopy(model)
    answers = _enqueue(trial, specs)
    vars(model).update(vars(trial))
    return answers


def _enqueue(model: Model, specs: Sequence[JobSpec]) -> list[Enqueued]:
    order = sorted(range(len(specs)), key=lambda i: _key(specs[i]) or "")
    fresh = {i: _insert(model, specs[i]) for i in order}
    answers = {i: _created(model, specs[i]) if fresh[i] else _meet(model, specs[i]) for i in order}
    return [answers[i] for i in range(len(specs))]


def _key(spec: JobSpec) -> str | None:
    return spec.dedupe.key if spec.dedupe else None


def _insert(model: Model, spec: JobSpec) -> bool:
    key = _key(spec)
    opener, until = model.windows.get(key or "", ("", 0))
    is_open = until > model.now and opener in model.jobs
    closed = model.queues.get(spec.route.queue) in ("draining", "disabled")
    if is_open or closed or spec.id in model.jobs or model.holder(key):
        return False
    at = model.now + spec.delay
    limits = JobLimits.decode(spec.limits) if spec.limits else None
    model.jobs[spec.id] = Job(
        id=spec.id,
        queue=spec.route.queue,
        payload=spec.payload,
        priority=spec.priority,
        not_before=at,
        rank=at,
        due=0 if at > model.now else 1,
        reason="delay" if at > model.now else "new",
        max_attempts=spec.max_attempts,
        deadline=None if spec.deadline is None else model.now + spec.deadline,
        key=key,
        until=spec.dedupe.until if spec.dedupe else None,
        holds_key=key is not None,
        limit=(limits.key or "", limits.capacity or 0) if limits else None,
    )
    return True


def _created(model: Model, spec: JobSpec) -> Enqueued:
    if spec.dedupe and spec.dedupe.until == "window":
        model.windows[spec.dedupe.key] = (spec.id, model.now + spec.dedupe.window)
    return Enqueued(spec.id, True)


def _meet(model: Model, spec: JobSpec) -> Enqueued:
    if spec.id in model.jobs:
        if model.jobs[spec.id].payload != spec.payload:
            raise IdTaken(spec.id)
        return Enqueued(spec.id, created=not spec.explicit_id)
    if spec.dedupe and (winner := _winner(model, spec)):
        return winner
    if (state := model.queues.get(spec.route.queue)) in ("draining", "disabled"):
        raise QueueClosed(spec.route.queue, state or "")
    assert _insert(model, spec)
    return _created(model, spec)


def _winner(model: Model, spec: JobSpec) -> Enqueued | None:
    dedupe = spec.dedupe
    assert dedupe is not None
    holder = model.holder(dedupe.key)
    if holder is None:
        past = model.windows.get(dedupe.key)
        if past is None or past[1] <= model.now or past[0] not in model.jobs:
            return None
        holder_id = past[0]
    else:
        holder_id = holder.id
        if holder.until == "failure" and holder.state is S.READY and holder.reason == "retry":
            holder.move(Event.SUPERSEDE, S.FAILED)
            holder.ends("superseded", model.now)
            links.tell(model, [holder])
            return None
        if dedupe.on_duplicate == "replace":
            if holder.state is S.READY and holder.started_at is None:
                reason = holder.reason
                holder.payload = spec.payload
                holder.rests(reason, model.now + spec.delay, model.now)
            elif holder.state is S.BLOCKED and holder.reason == "operator" and holder.started_at is None:
                holder.payload = spec.payload
                holder.not_before = holder.rank = model.now + spec.delay
            return Enqueued(holder_id, False)
    if dedupe.on_duplicate == "raise":
        raise DuplicateJob(holder_id, dedupe.key)
    return Enqueued(holder_id, False)
