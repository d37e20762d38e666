"""Put jobs into the store, once per id and once per dedupe key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...errors import DuplicateJob, IdTaken, QueueClosed, StorageBusy
from ...model.job import Dedupe, Enqueued, JobSpec
from ..port import Params, Row, Tx
from ..statements import sql
from . import events
from .endpoints import note_called
from .fairness import fair_ranks
from .routes import insert_routes

# How often a key may change hands between the insert and the look at its holder.
_TRIES: Final = 3
CLOSED: Final = ("draining", "disabled")
# Reasons for which a job may wait for its next try; one that is over a limit has lost its own.
_RETRYING: Final = ("retry", "limit")


async def enqueue(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """Insert every job, or find the one that already holds its id or key. Answers come in order."""
    await _prepare(tx, specs)
    # Keys are locked in one order by everybody; where two specs share a key, the first still comes first.
    order = sorted(range(len(specs)), key=lambda i: held_key(specs[i]) or "")
    ranks = await fair_ranks(tx, specs)
    rows = await tx.each(sql.insert_job, [_as_row(specs[i], ranks.get(i)) for i in order])
    answers: dict[int, Enqueued] = {}
    for i, row in zip(order, rows, strict=True):
        answers[i] = await _created(tx, specs[i]) if row else await _meet_twin(tx, specs[i])
    await note_called(tx, [specs[i] for i, answer in answers.items() if answer.created])
    for queue in {specs[i].route.queue for i, answer in answers.items() if answer.created}:
        tx.ring(f"queue:{queue}")
    return [answers[i] for i in range(len(specs))]


async def enqueue_keyless(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """The same for jobs that can meet no twin: nothing to look at, nothing to wait for."""
    if len(specs) == 1:
        inserted = await tx.count(sql.insert_plain_job, _PLAIN_COLUMNS, [_plain_values(specs[0])])
    else:
        inserted = await tx.count(sql.insert_job, _COLUMNS, [_values(spec) for spec in specs])
    for queue in {spec.route.queue for spec in specs}:
        tx.ring(f"queue:{queue}")
    if inserted < len(specs):  # a queue is closed, or this very call is repeated after an unknown outcome
        return [await _look(tx, spec) for spec in specs]
    return [Enqueued(spec.id, True) for spec in specs]


async def enqueue_fresh(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """The same for many jobs whose ids were made a moment ago, in a transaction of our own."""
    now, closed, loud = await tx.one(sql.time_and_closed_queues) or (0, None, None)
    queues = {spec.route.queue for spec in specs}
    if closed is not None:
        for queue in queues:
            await _require_open(tx, queue)
    await tx.copy(sql.copy_jobs, [_placed(spec, now) for spec in specs])
    if loud is not None:
        await events.copied(tx, [spec.id for spec in specs])
    for queue in queues:
        tx.ring(f"queue:{queue}")
    return [Enqueued(spec.id, True) for spec in specs]


def held_key(spec: JobSpec) -> str | None:
    """The value that a job's dedupe key is held by."""
    return key_text(spec.tenant, spec.dedupe.scope, spec.dedupe.key) if spec.dedupe else None


def key_text(tenant: str, scope: str, key: str) -> str:
    return f"{tenant}\x1f{scope}\x1f{key}"


async def _prepare(tx: Tx, specs: Sequence[JobSpec]) -> None:
    await insert_routes(tx, [spec.route for spec in specs])
    if any(spec.dedupe for spec in specs):
        await tx.one(sql.limit_lock_wait)


async def _created(tx: Tx, spec: JobSpec) -> Enqueued:
    if spec.dedupe is None or spec.dedupe.until != "window":
        return Enqueued(spec.id, True)
    held = held_key(spec)
    if await tx.one(sql.open_dedupe_window, held=held, job_id=spec.id, window=spec.dedupe.window):
        return Enqueued(spec.id, True)
    # While the insert waited for a stranger's twin, that one ended and left its window open.
    await tx.one(sql.delete_job, id=spec.id)
    if past := await _window_winner(tx, held):
        return _existing(past, spec.dedupe)
    raise StorageBusy(f"the dedupe window of job {spec.id} closed this moment; repeat the call")


async def _meet_twin(tx: Tx, spec: JobSpec) -> Enqueued:
    """The insert found its id or key taken: name the winner, or take its place by the key's policy."""
    for _ in range(_TRIES):
        if await tx.one(sql.job_identity, id=spec.id):
            return await _same_id(tx, spec)
        if spec.dedupe and (winner := await _winner(tx, spec, spec.dedupe)):
            return winner
        await _require_open(tx, spec.route.queue)
        if (await tx.each(sql.insert_job, [_as_row(spec)]))[0]:
            return await _created(tx, spec)
    raise StorageBusy(f"the dedupe key of job {spec.id} keeps changing hands; repeat the call")


async def _look(tx: Tx, spec: JobSpec) -> Enqueued:
    if await tx.one(sql.job_identity, id=spec.id) is None:
        await _require_open(tx, spec.route.queue)
        raise StorageBusy(f"queue {spec.route.queue!r} was opened this moment; repeat the call")
    return await _same_id(tx, spec)


async def _require_open(tx: Tx, queue: str) -> None:
    row = await tx.one(sql.queue_state, name=queue)
    if row and row[0] in CLOSED:
        raise QueueClosed(queue, row[0])


async def _same_id(tx: Tx, spec: JobSpec) -> Enqueued:
    # Another tenant's job is not handed out, whatever it does: only that the id is taken is said.
    if await tx.one(sql.job_identity, id=spec.id) != (spec.task, spec.payload, spec.tenant):
        raise IdTaken(spec.id)
    return Enqueued(spec.id, created=not spec.explicit_id)


async def _winner(tx: Tx, spec: JobSpec, dedupe: Dedupe) -> Enqueued | None:
    """The job that holds the key; None where it has let go of it."""
    held = held_key(spec)
    holder = await tx.one(sql.dedupe_winner, held=held)
    if holder is None:
        past = await _window_winner(tx, held)
        return _existing(past, dedupe) if past else None
    winner_id, _state, reason, until, _attempts = holder
    if until == "failure" and reason in _RETRYING and (ended := await tx.one(sql.supersede_job, id=winner_id)):
        if ended[0]:
            # Those who wait for it are told by whoever resolves what others leave.
            tx.ring("hops")
        return None
    if dedupe.on_duplicate == "replace":
        if row := await tx.one(sql.replace_job, id=winner_id, payload=spec.payload, at=spec.at, delay=spec.delay):
            tx.ring(f"queue:{row[0]}")
        return Enqueued(winner_id, False)
    return _existing(winner_id, dedupe)


async def _window_winner(tx: Tx, held: str | None) -> str | None:
    """The job whose window is open, as long as there is that job."""
    await tx.one(sql.close_dead_window, held=held)
    row = await tx.one(sql.dedupe_window_winner, held=held)
    return str(row[0]) if row else None


def _existing(winner_id: str, dedupe: Dedupe) -> Enqueued:
    if dedupe.on_duplicate == "raise":
        raise DuplicateJob(winner_id, dedupe.key)
    return Enqueued(winner_id, False)


def _as_row(spec: JobSpec, rank: int | None = None) -> Params:
    return dict(zip(_COLUMNS, _values(spec, rank), strict=True))


_PLAIN_COLUMNS: Final = (
    "id", "task", "queue", "route", "tenant", "at", "delay", "priority", "limits", "payload", "tags", "trace",
    "max_attempts", "retry", "timeout", "deadline_at", "deadline",
)  # fmt: skip
_COLUMNS: Final = (*_PLAIN_COLUMNS, "rank", "dedupe_scope", "dedupe_key", "dedupe_until", "dedupe_held")


def _plain_values(spec: JobSpec) -> Row:
    """What is stored of a job without a key, in the order of _PLAIN_COLUMNS."""
    route = spec.route
    return (
        spec.id, spec.task, route.queue, route.number, spec.tenant, spec.at, spec.delay, spec.priority, spec.limits,
        spec.payload, spec.tags, spec.trace, spec.max_attempts, spec.retry, spec.timeout, spec.deadline_at,
        spec.deadline,
    )  # fmt: skip


def _values(spec: JobSpec, rank: int | None = None) -> Row:
    """What is stored of any job, in the order of _COLUMNS."""
    dedupe = spec.dedupe
    key = (dedupe.scope, dedupe.key, dedupe.until, held_key(spec)) if dedupe else _KEYLESS
    return (*_plain_values(spec), rank, *key)


_KEYLESS: Final = (None, None, None, None)


def _placed(spec: JobSpec, now: int) -> Row:
    """The row of a new job, in the order of copy_jobs; as insert_job makes it."""
    starts = now + spec.delay if spec.at is None else spec.at
    due, reason = (1, "new") if starts <= now else (0, "delay")
    deadline = spec.deadline_at
    if deadline is None and spec.deadline is not None:
        deadline = now + spec.deadline
    return (
        spec.id, spec.task, spec.route.queue, spec.route.number, spec.tenant, "ready", due, spec.priority,
        starts, starts, reason, spec.limits, spec.payload, spec.tags, spec.trace, spec.max_attempts, spec.retry,
        spec.timeout, deadline, now,
    )  # fmt: skip
