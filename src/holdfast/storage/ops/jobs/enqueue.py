"""Put jobs into the store, once per id and once per dedupe key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ....errors import DuplicateJob, IdTaken, QueueClosed, StorageBusy
from ....model.jobs import Dedupe, Enqueued, JobSpec
from ....model.values import is_same
from ...job_fields import COPIED, GIVEN, STORED, reader
from ...port import Params, Row, Tx
from ...statements import sql
from .. import events
from ..limits.fairness import fair_ranks, give_back
from ..routing.routes import insert_routes
from ..webhooks.endpoints import note_called
from . import values

# How often a key may change holders between the insert and the read of its holder.
_TRIES: Final = 3
CLOSED: Final = ("draining", "disabled")
# Reasons for which a job may wait for its next retry; a job over a limit has lost its own reason.
_RETRYING: Final = ("retry", "limit")


async def enqueue(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """Insert every job, or find the one that already holds its id or key. Results come in order."""
    await _prepare(tx, specs)
    # Every transaction locks keys in one order; where two specs share a key, the first still comes first.
    order = sorted(range(len(specs)), key=lambda i: held_key(specs[i]) or "")
    ranks = await fair_ranks(tx, specs)
    stored = [_with_reference(spec) for spec in specs]
    rows = await tx.each(sql.insert_job, [_as_row(stored[i], ranks.get(i)) for i in order])
    answers: dict[int, Enqueued] = {}
    for i, row in zip(order, rows, strict=True):
        if row:
            await values.keep(tx, specs[i].id, "payload", "", stored[i].payload, specs[i].payload)
        answers[i] = await _created(tx, specs[i]) if row else await _meet_twin(tx, specs[i], ranks.get(i))
    if ranks:
        await give_back(tx, [specs[i] for i, answer in answers.items() if not answer.created])
    await note_called(tx, [specs[i] for i, answer in answers.items() if answer.created])
    await _note_hooks(tx, [specs[i] for i, answer in answers.items() if answer.created])
    for queue in {specs[i].route.queue for i, answer in answers.items() if answer.created}:
        tx.notify(f"queue:{queue}")
    return [answers[i] for i in range(len(specs))]


async def enqueue_keyless(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """Enqueue jobs that have no dedupe key: there is no holder to read or wait for."""
    if len(specs) == 1:
        inserted = await tx.count(sql.insert_plain_job, _PLAIN_COLUMNS, [_plain_values(specs[0])])
    else:
        inserted = await tx.count(sql.insert_job, _COLUMNS, [_values(spec) for spec in specs])
    for queue in {spec.route.queue for spec in specs}:
        tx.notify(f"queue:{queue}")
    if inserted < len(specs):  # a queue is closed, or this very call is repeated after an unknown outcome
        return [await _look(tx, spec) for spec in specs]
    return [Enqueued(spec.id, True) for spec in specs]


async def enqueue_fresh(tx: Tx, specs: Sequence[JobSpec]) -> list[Enqueued]:
    """Enqueue many jobs whose ids were just generated, in a transaction of the store's own."""
    now, closed, verbose = await tx.one(sql.time_and_closed_queues) or (0, None, None)
    queues = {spec.route.queue for spec in specs}
    if closed is not None:
        for queue in queues:
            await _require_open(tx, queue)
    await _copy(tx, specs, now)
    if verbose is not None:
        await events.copied(tx, [spec.id for spec in specs])
    for queue in queues:
        tx.notify(f"queue:{queue}")
    return [Enqueued(spec.id, True) for spec in specs]


async def store_in_any_queue(tx: Tx, spec: JobSpec) -> None:
    """Store a job that follows from another, even in a queue that accepts no new ones."""
    await insert_routes(tx, [spec.route])
    now, *_ = await tx.one(sql.time_and_closed_queues) or (0,)
    await _copy(tx, [spec], now)
    await note_called(tx, [spec])
    await _note_hooks(tx, [spec])
    tx.notify(f"queue:{spec.route.queue}")


async def _copy(tx: Tx, specs: Sequence[JobSpec], now: int) -> None:
    await tx.copy(sql.copy_jobs, [(*_stored(spec), now) for spec in specs])
    await tx.copy(sql.copy_live, [_placed(spec, now) for spec in specs])


def held_key(spec: JobSpec) -> str | None:
    """Return the value under which a job's dedupe key is stored."""
    return key_text(spec.tenant, spec.dedupe.scope, spec.dedupe.key) if spec.dedupe else None


def key_text(tenant: str, scope: str, key: str) -> str:
    return f"{tenant}\x1f{scope}\x1f{key}"


async def _prepare(tx: Tx, specs: Sequence[JobSpec]) -> None:
    await insert_routes(tx, [spec.route for spec in specs])
    if any(spec.dedupe for spec in specs):
        await tx.one(sql.limit_lock_wait)


async def _note_hooks(tx: Tx, specs: Sequence[JobSpec]) -> None:
    """Store the hooks of new jobs. The jobs are linked, so that none of their ends is missed."""
    if rows := [{"job_id": spec.id, "hooks": spec.hooks} for spec in specs if spec.hooks is not None]:
        await tx.one(sql.note_hooks, rows=json.dumps(rows))
        await tx.all(sql.link_upstreams, ids=json.dumps([row["job_id"] for row in rows]))


async def _created(tx: Tx, spec: JobSpec) -> Enqueued:
    if spec.dedupe is None or spec.dedupe.until != "window":
        return Enqueued(spec.id, True)
    held = held_key(spec)
    if await tx.one(sql.open_dedupe_window, held=held, job_id=spec.id, window=spec.dedupe.window):
        return Enqueued(spec.id, True)
    # While the insert waited for another transaction's job with the same key, that job ended with its window open.
    await tx.one(sql.delete_job, id=spec.id)
    await tx.one(sql.untell_job, id=spec.id)
    if past := await _window_winner(tx, held):
        return _existing(past, spec.dedupe)
    raise StorageBusy(f"the dedupe window of job {spec.id} closed this moment; repeat the call")


async def _meet_twin(tx: Tx, spec: JobSpec, rank: int | None) -> Enqueued:
    """Resolve an insert whose id or key is taken: return the holder, or replace it by the key's policy."""
    for _ in range(_TRIES):
        if await tx.one(sql.job_identity, id=spec.id):
            return await _same_id(tx, spec)
        if spec.dedupe and (winner := await _winner(tx, spec, spec.dedupe)):
            return winner
        await _require_open(tx, spec.route.queue)
        stored = _with_reference(spec)
        if (await tx.each(sql.insert_job, [_as_row(stored, rank)]))[0]:
            await values.keep(tx, spec.id, "payload", "", stored.payload, spec.payload)
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
    # Another tenant's job is never returned, whatever its state: the caller only learns that the id is taken.
    task, payload, tenant = await tx.one(sql.job_identity, id=spec.id) or ("", "", "")
    if (task, tenant) != (spec.task, spec.tenant) or not is_same(payload, spec.payload):
        raise IdTaken(spec.id)
    return Enqueued(spec.id, created=not spec.explicit_id)


async def _winner(tx: Tx, spec: JobSpec, dedupe: Dedupe) -> Enqueued | None:
    """Return the job that holds the key; None where it no longer does."""
    held = held_key(spec)
    holder = await tx.one(sql.dedupe_winner, held=held)
    if holder is None:
        past = await _window_winner(tx, held)
        return _existing(past, dedupe) if past else None
    winner_id, _state, reason, until, _attempts = holder
    if until == "failure" and reason in _RETRYING and (ended := await tx.one(sql.supersede_job, id=winner_id)):
        if ended[0]:
            # Jobs that wait for it are notified later, by the worker that resolves leftover ends.
            tx.notify("hops")
        return None
    if dedupe.on_duplicate == "replace":
        payload = values.column_of(spec.payload)
        if row := await tx.one(sql.replace_job, id=winner_id, payload=payload, at=spec.at, delay=spec.delay):
            await tx.one(sql.replace_payload, id=winner_id, payload=payload)
            await values.drop(tx, [winner_id], "payload")
            await values.keep(tx, winner_id, "payload", "", payload, spec.payload)
            tx.notify(f"queue:{row[0]}")
        return Enqueued(winner_id, False)
    return _existing(winner_id, dedupe)


async def _window_winner(tx: Tx, held: str | None) -> str | None:
    """Return the job whose window is open, if that job still exists."""
    await tx.one(sql.close_dead_window, held=held)
    row = await tx.one(sql.dedupe_window_winner, held=held)
    return str(row[0]) if row else None


def _existing(winner_id: str, dedupe: Dedupe) -> Enqueued:
    if dedupe.on_duplicate == "raise":
        raise DuplicateJob(winner_id, dedupe.key)
    return Enqueued(winner_id, False)


def _with_reference(spec: JobSpec) -> JobSpec:
    """Return the job as its row stores it: arguments that are too large are kept in a blob."""
    column = values.column_of(spec.payload)
    return spec if column is spec.payload else replace(spec, payload=column)


def _as_row(spec: JobSpec, rank: int | None = None) -> Params:
    return dict(zip(_COLUMNS, _values(spec, rank), strict=True))


_stored: Final = reader(STORED)
_copied: Final = reader(COPIED)
_PLAIN_COLUMNS: Final = (*GIVEN, "queue", "route", "at", "delay", "deadline_at", "deadline")
_COLUMNS: Final = (*_PLAIN_COLUMNS, "rank", "dedupe_scope", "dedupe_key", "dedupe_until", "dedupe_held")
_plain_values: Final = reader((*GIVEN, "route.queue", "route.number", "at", "delay", "deadline_at", "deadline"))
"""Return the values of a job without a key, in the order of _PLAIN_COLUMNS."""


def _values(spec: JobSpec, rank: int | None = None) -> Row:
    """Return the values of any job, in the order of _COLUMNS."""
    dedupe = spec.dedupe
    key = (dedupe.scope, dedupe.key, dedupe.until, held_key(spec)) if dedupe else _KEYLESS
    return (*_plain_values(spec), rank, *key)


_KEYLESS: Final = (None, None, None, None)


def _placed(spec: JobSpec, now: int) -> Row:
    """Return where a new job starts, in the order of copy_live, as insert_job makes it."""
    starts = now + spec.delay if spec.at is None else spec.at
    due, reason = (1, "new") if starts <= now else (0, "delay")
    deadline = spec.deadline_at
    if deadline is None and spec.deadline is not None:
        deadline = now + spec.deadline
    route = spec.route
    return (*_copied(spec), route.queue, route.number, "ready", due, starts, starts, reason, deadline)
