"""Waits that end by time, and those that an operator ends."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from ....errors import IllegalMove, NotFound, PayloadMismatch
from ....model.jobs import JobState
from ....model.signals import Answer
from ....rules.failure import error_json
from ....rules.schemas import misfit
from ....rules.signals import hope
from ...port import Tx
from ...statements import sql
from ..audit import audit
from ..flows import dependency_resolution
from ..jobs.queries import clock, get_job
from .suspension import Awaited, awaited, gates_of, go_on, leave, unread

PAGE: Final = 100
_STATES: Final = {"fail": "failed", "cancel": "cancelled", "expire": "expired"}


async def next_wake(tx: Tx) -> int | None:
    """Return the microseconds until the first wait must be checked, 0 or less if it is due; None if there is none."""
    row = await tx.one(sql.next_wake)
    return None if row is None else int(row[0])


async def wake_due(tx: Tx) -> int:
    """End the waits whose time is over, a page at a time; return how many were checked."""
    due = [job_id for (job_id,) in await tx.all(sql.due_waits, n=PAGE)]
    if not due:
        return 0
    text = json.dumps(due)
    now = await clock(tx)
    for job_id, state in await tx.all(sql.lock_waiters, ids=text):
        # Read under the lock: it may have resumed since and wait for something else.
        if state != "suspended":
            await tx.one(sql.drop_wait, job_id=job_id)
        elif wait := await awaited(tx, job_id):
            await _look(tx, job_id, wait, now)
    await tx.one(sql.drop_orphan_waits, ids=text)
    return len(due)


async def resume(tx: Tx, job_id: str, payload: str, *, actor: str, reason: str, tenant: str | None = None) -> None:
    """Resume a suspended job with an operator's answer, whatever it waits for."""
    await tx.one(sql.lock_job, id=job_id)
    job = await get_job(tx, job_id)
    if tenant not in (None, job.tenant):
        raise NotFound("job", job_id)
    wait = await awaited(tx, job_id)
    if wait is None or job.state is not JobState.SUSPENDED:
        raise IllegalMove(
            f"job {job_id} is {job.state}; only a suspended job can be resumed; see: holdfast jobs explain {job_id}"
        )
    schema = wait.terms.schema
    if schema is not None and payload != "null" and (fault := misfit(schema, payload)):
        raise PayloadMismatch(fault)
    answer = Answer("operator", payload=msgspec.Raw(payload.encode()))
    if not await go_on(tx, job_id, wait.key, answer, wait.terms, wait.since):
        raise IllegalMove(f"job {job_id} is no longer suspended; nothing is left to do")
    before = {"waited_for": job.reason, "since": wait.since}
    await audit(tx, actor=actor, action="job.resume", target=job_id, reason=reason, before=before)


async def _look(tx: Tx, job_id: str, wait: Awaited, now: int) -> None:
    if wait.timeout_at is None or wait.timeout_at > now:
        mailbox = (await unread(tx, [job_id])).get(job_id, [])
        hopeless_at = hope(wait.terms.condition, mailbox, await gates_of(tx, wait.terms.waitpoints))
        if hopeless_at is None or hopeless_at > now:
            later = [at for at in (hopeless_at, wait.timeout_at) if at is not None]
            await tx.one(sql.set_wake, job_id=job_id, wake_at=min(later, default=None))
            return
    await _time_out(tx, job_id, wait)


async def _time_out(tx: Tx, job_id: str, wait: Awaited) -> None:
    if wait.on_timeout == "resume":
        await go_on(tx, job_id, wait.key, Answer("timeout"), wait.terms, wait.since)
    elif wait.on_timeout == "escalate":
        await tx.one(sql.escalate_job, id=job_id)
        await tx.one(sql.escalate_wait, job_id=job_id)
    else:
        await _give_up(tx, job_id, wait, _STATES[wait.on_timeout])


async def _give_up(tx: Tx, job_id: str, wait: Awaited, state: str) -> None:
    error = error_json("WaitTimeout", f"what it waited for did not come in time ({wait.key})")
    row = await tx.one(
        sql.give_up_job, id=job_id, state=state, reason="wait_timeout", error=error if state == "failed" else None
    )
    if row is None:
        return
    await leave(tx, job_id, wait.terms)
    await tx.one(sql.drop_wait, job_id=job_id)
    tx.notify("finished")
    if row[1]:
        await dependency_resolution.resolve(tx, [job_id])
