"""Waitpoints: where a signal may arrive, each with a token that needs no other permission.

A token is written from the waitpoint's row whenever it is requested, and stored nowhere. Whether a waitpoint is open
also depends on its job: one whose job has ended, or was retried since, accepts nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ....errors import Conflict, Corruption, LeaseLost
from ....ids import ids
from ....model.signals import MAX_WAITPOINTS, Opened, Pending, name_id, name_of
from ....model.values import decoded, in_brief, instant_of, is_reference
from ....rules.signals import Claims, sign
from ...port import Row, Tx, Value
from ...statements import sql
from . import keys


@dataclass(frozen=True, slots=True)
class WaitpointRecord:
    """A waitpoint, and the facts about its job that decide whether it is open, at `now`."""

    id: str
    job_id: str
    name: str
    kid: str
    schema: str | None
    expires_at: int
    closed_at: int | None
    generation: int
    once: bool
    tenant: str
    job_generation: int
    finished_at: int | None
    now: int

    @property
    def claims(self) -> Claims:
        return Claims(self.tenant, self.job_id, self.generation, self.name, self.expires_at, self.id, bool(self.once))

    @property
    def is_current(self) -> bool:
        """Return whether it has not expired, and its job is still in the generation that opened it."""
        return self.expires_at > self.now and self.generation == self.job_generation

    @property
    def is_open(self) -> bool:
        return self.is_current and self.closed_at is None and self.finished_at is None


async def open_waitpoint(
    tx: Tx,
    owner: str,
    job_id: str,
    epoch: int,
    key: str,
    name: str,
    expires: int,
    *,
    schema: str | None = None,
    once: bool = True,
    called: str = "",
    position: int | None = None,
) -> Opened:
    """Open a waitpoint for a running job and record it as the step `key`; return the same where that step exists.

    `expires` is in microseconds from now. No step has the token, so call this again on a replay. The step of a fork
    names the waitpoint of another job: each has its own.
    """
    row = await tx.one(sql.lock_running, id=job_id, owner=owner, epoch=epoch)
    if row is None:
        raise LeaseLost(f"job {job_id} is no longer this worker's; no waitpoint was opened")
    tenant, generation = row
    known = await tx.one(sql.waitpoint_of_step, job_id=job_id, key=key)
    if known is not None:
        return await _opened_before(tx, known[0], generation, expires)
    await _check_room(tx, job_id)
    id = ids.new()
    kid, secret = await keys.signing_key(tx)
    common: dict[str, Value] = {"job_id": job_id, "key": key, "name": name}
    made = await tx.one(
        sql.insert_waitpoint, id=id, kid=kid, schema=schema, expires=expires, generation=generation, once=int(once),
        **common,
    )  # fmt: skip
    assert made is not None
    value = json.dumps(id)
    await tx.one(
        sql.insert_answer, kind="waitpoint", called=called, position=position, value=value, since=None, **common
    )
    await keys.note_signed(tx, kid, made[0])
    claims = Claims(tenant, job_id, generation, name, made[0], id, once)
    return Opened(id, job_id, name, sign(secret, kid, claims), instant_of(made[0]))


async def find_opened(tx: Tx, job_id: str, key: str, generation: int) -> Opened | None:
    """Find the waitpoint that a job has opened as the step `key` in this generation, with its token."""
    known = await tx.one(sql.waitpoint_of_step, job_id=job_id, key=key)
    found = None if known is None else await get_waitpoint(tx, known[0])
    return None if found is None or found.generation != generation else await _with_token(tx, found)


async def get_waitpoint(tx: Tx, id: str) -> WaitpointRecord | None:
    row = await tx.one(sql.get_waitpoint, id=id)
    return None if row is None else WaitpointRecord(id, *row)


async def pending(
    tx: Tx, *, tenant: str | None = None, job_id: str | None = None, after: str = "", limit: int = 100
) -> list[Pending]:
    """List waitpoints that accept a signal, and names that suspended jobs wait for, by id, from after an id."""
    place, name = name_of(after)
    some: dict[str, Value] = {"tenant": tenant, "job_id": job_id, "after": place, "n": limit}
    found = [_pending(row) for row in await tx.all(sql.pending_waitpoints, **some)]
    found += [_pending_name(row) for row in await tx.all(sql.pending_names, name=name, **some)]
    return sorted(found, key=lambda one: name_of(one.id))[:limit]


def _pending_name(row: Row) -> Pending:
    job_id, task, queue, tenant, name, schema, since, until, arguments = row
    return _pending((name_id(job_id, name), job_id, task, queue, tenant, name, "", schema, since, until, 0, None,
                     "suspended", arguments))  # fmt: skip


def _pending(row: Row) -> Pending:
    id, job_id, task, queue, tenant, name, kid, schema, created, expires, refusals, refused, state, arguments = row
    return Pending(
        id=id,
        name=name,
        job_id=job_id,
        task=task,
        queue=queue,
        tenant=tenant,
        kid=kid,
        schema=decoded(schema),
        awaited=state == "suspended",
        created_at=instant_of(created),
        expires_at=instant_of(expires),
        refusals=refusals,
        refused_at=instant_of(refused),
        arguments=in_brief(arguments) if is_reference(arguments) else arguments,
    )


async def _opened_before(tx: Tx, id: str, generation: int, expires: int) -> Opened:
    found = await get_waitpoint(tx, id)
    if found is None:
        raise Corruption(f"the waitpoint {id} has no job")
    if found.generation != generation:
        return await _reopen(tx, found, generation, expires)
    return await _with_token(tx, found)


async def _with_token(tx: Tx, found: WaitpointRecord) -> Opened:
    token = sign(await keys.secret_of(tx, found.kid), found.kid, found.claims)
    return Opened(found.id, found.job_id, found.name, token, instant_of(found.expires_at))


async def _reopen(tx: Tx, found: WaitpointRecord, generation: int, expires: int) -> Opened:
    """Reopen a waitpoint whose job was retried. Received signals are in the mailbox or journal; others may come."""
    kid, secret = await keys.signing_key(tx)
    row = await tx.one(sql.reopen_waitpoint, id=found.id, kid=kid, expires=expires, generation=generation)
    assert row is not None
    await keys.note_signed(tx, kid, row[0])
    claims = Claims(found.tenant, found.job_id, generation, found.name, row[0], found.id, bool(found.once))
    return Opened(found.id, found.job_id, found.name, sign(secret, kid, claims), instant_of(row[0]))


async def _check_room(tx: Tx, job_id: str) -> None:
    row = await tx.one(sql.count_waitpoints, job_id=job_id)
    if row is not None and row[0] >= MAX_WAITPOINTS:
        raise Conflict(f"job {job_id} has opened {MAX_WAITPOINTS:,} waitpoints, which is the limit")
