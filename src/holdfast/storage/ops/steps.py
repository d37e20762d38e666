"""The journal of a job: read by each of its runs, written by the one that owns it, never overwritten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...errors import LeaseLost, NotFound, QueueClosed
from ...model.jobs import Enqueued, JobSpec
from ...model.steps import Journal, Step
from ...model.values import is_reference
from ...rules.steps import find_cut
from ..port import Row, Tx
from ..statements import sql
from .jobs import enqueue as enqueuing
from .jobs import values
from .jobs.queries import get_job
from .routing import grants


async def read_journal(tx: Tx, job_id: str) -> Journal:
    """Read a job's journal. Large values are not read: see `whole`."""
    rows = await tx.all(sql.journal_of, job_id=job_id)
    return Journal(
        steps=tuple(_step(row[:12]) for row in rows if not row[12]),
        read_at=int(rows[0][13]) if rows else 0,
        stale=frozenset(row[0] for row in rows if row[12]),
    )


async def read_whole_journal(tx: Tx, job_id: str) -> list[Step]:
    """Read a job's journal with all values."""
    return [await whole(tx, step) for step in (await read_journal(tx, job_id)).steps]


async def record(
    tx: Tx, owner: str, job_id: str, epoch: int, step: Step, *, took: int = 0, wake_after: int | None = None
) -> Step:
    """Write an entry for the run that owns the job; LeaseLost where another run owns it by now.

    One statement, unless its value is large. An existing entry under its key stays and is returned: this call was
    repeated after an unknown outcome. `took` and `wake_after` are microseconds.
    """
    column = None if step.value is None else values.column_of(step.value)
    row = await _insert(tx, owner, job_id, epoch, replace(step, value=column), took, wake_after)
    if row is None:
        before = await find(tx, job_id, step.key)
        if before is not None:
            return before
        raise await _lost(tx, job_id)
    if column is not None and step.value is not None:
        await values.keep(tx, job_id, "step", step.key, column, step.value)
    value = row[0] if step.value is None else step.value
    return replace(step, value=value, started_at=row[1], ended_at=row[2], epoch=epoch)


async def overwrite(tx: Tx, owner: str, job_id: str, epoch: int, step: Step, *, took: int = 0) -> Step:
    """Write an entry in place of a failure with which an earlier attempt ended."""
    await tx.one(sql.drop_failed_step, job_id=job_id, key=step.key, epoch=epoch)
    return await record(tx, owner, job_id, epoch, step, took=took)


async def record_all(tx: Tx, owner: str, job_id: str, epoch: int, steps: Sequence[Step]) -> list[Step]:
    """Write several failures, all or none."""
    return [await overwrite(tx, owner, job_id, epoch, step) for step in steps]


async def record_enqueue(tx: Tx, owner: str, job_id: str, epoch: int, step: Step, spec: JobSpec) -> Enqueued:
    """Enqueue a job and write its journal entry, both or neither."""
    if before := await find(tx, job_id, step.key):
        return _enqueued(before)
    (made,) = await enqueuing.enqueue(tx, [spec])
    value = json.dumps({"id": made.id, "created": made.created})
    # Last, because it undoes the whole where the job is no longer ours.
    return _enqueued(await record(tx, owner, job_id, epoch, replace(step, value=value)))


async def find(tx: Tx, job_id: str, key: str) -> Step | None:
    """Return an entry, with its value."""
    row = await tx.one(sql.step_of, job_id=job_id, key=key)
    return await whole(tx, _step(row)) if row else None


async def whole(tx: Tx, step: Step) -> Step:
    """Return the entry with its value, where that is kept in a blob."""
    return replace(step, value=await values.load_any(tx, step.value)) if is_reference(step.value) else step


async def fork(tx: Tx, job_id: str, from_step: str, new_id: str, created_by: str = "engine") -> str:
    """Create a job that has done what this one did before a step, and resumes from there; return its id."""
    route = await grants.own_route(tx, job_id)
    job = await get_job(tx, job_id)
    journal = await read_journal(tx, job_id)
    cut = find_cut(journal.steps, from_step)
    if cut is None:
        raise NotFound(f"step of job {job_id}", from_step)
    state = await tx.one(sql.queue_state, name=job.queue)
    if state and state[0] in enqueuing.CLOSED:
        raise QueueClosed(job.queue, state[0])
    await tx.one(sql.fork_job, id=job_id, fork=new_id, created_by=created_by)
    await tx.one(sql.place_fork, id=job_id, fork=new_id, route=route)
    await tx.one(sql.fork_steps, id=job_id, fork=new_id, position=cut.position)
    await tx.one(sql.fork_artifacts, id=job_id, fork=new_id)
    await tx.one(sql.fork_values, id=job_id, fork=new_id)
    tx.notify(f"queue:{job.queue}")
    return new_id


async def forget(tx: Tx, job_id: str) -> None:
    """Empty a job's journal, and delete the artifacts that it lists: its next run starts from the beginning."""
    await tx.one(sql.forget_steps, ids=json.dumps([job_id]))
    await tx.one(sql.remove_artifacts, ids=json.dumps([job_id]))
    await values.drop(tx, [job_id], "step")


async def _insert(
    tx: Tx, owner: str, job_id: str, epoch: int, step: Step, took: int, wake_after: int | None
) -> Row | None:
    return await tx.one(
        sql.record_step,
        job_id=job_id,
        owner=owner,
        epoch=epoch,
        key=step.key,
        position=step.position,
        kind=step.kind,
        name=step.name,
        called=step.called,
        value=step.value,
        error=step.error,
        attempts=step.attempts,
        attributes=step.attributes,
        took=took,
        wake_after=wake_after,
    )


async def _lost(tx: Tx, job_id: str) -> LeaseLost | NotFound:
    try:
        job = await get_job(tx, job_id)
    except NotFound as missing:
        return missing
    return LeaseLost(f"job {job_id} is {job.state} and no longer this run's; nothing was recorded")


def _step(row: Row) -> Step:
    key, kind, name, called, value, attempts, started_at, ended_at, epoch, position, error, attributes = row
    return Step(
        key=key, kind=kind, name=name, called=called, value=value, attempts=attempts, started_at=started_at,
        ended_at=ended_at, epoch=epoch, position=position, error=error, attributes=attributes,
    )  # fmt: skip


def _enqueued(step: Step) -> Enqueued:
    value = json.loads(step.value or "{}")
    return Enqueued(value["id"], bool(value["created"]))
