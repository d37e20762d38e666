"""Suspended jobs, which no worker owns: stored with what they wait for, and resumed when it arrives.

Every transaction that reads a mailbox or adds to it locks the job's row. So a job that is being suspended sees every
signal accepted before, and a signal accepted later sees the suspended job: no wake-up is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ....errors import LeaseLost
from ....model.signals import Answer, Condition, Distinct, Received, Wait
from ....rules.explain import Rest
from ....rules.signals import Gate, Note, chosen, hope
from ...port import Tx, Value
from ...statements import sql
from ..flows import edges
from ..jobs import values


class Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored part of a wait besides its times: the condition, and what to do once it is met."""

    names: tuple[str, ...] = ()
    waitpoints: tuple[str, ...] = ()
    needed: int = 1
    distinct: Distinct = "signals"
    jobs: bool = False
    schema: str | None = None
    delay: int = 0
    called: str = ""
    position: int | None = None

    @property
    def condition(self) -> Condition:
        return Condition(names=self.names, waitpoints=self.waitpoints, needed=self.needed, distinct=self.distinct)


@dataclass(frozen=True, slots=True)
class Awaited:
    """A wait as it is stored. Instants are microseconds."""

    key: str
    terms: Terms
    timeout_at: int | None
    on_timeout: str
    since: int


async def suspend(tx: Tx, waits: Mapping[str, Wait]) -> None:
    """Store what these jobs, suspended in this transaction, wait for; those whose wait is over resume at once."""
    if not waits:
        return
    waits = await _unanswered(tx, waits)
    mail = await unread(tx, waits)
    gates = await gates_of(tx, (id for wait in waits.values() for id in wait.condition.waitpoints))
    rows: list[dict[str, Value]] = []
    for job_id in sorted(waits):
        wait = waits[job_id]
        await describe(tx, job_id, wait)
        answer = await _ready_answer(tx, job_id, wait, mail.get(job_id, []))
        if answer is not None:
            await go_on(tx, job_id, wait.key, answer, terms_of(wait), None)
        else:
            rows.append(_row(job_id, wait, hope(wait.condition, mail.get(job_id, []), gates)))
    if rows:
        await tx.each(sql.put_wait, rows)


async def peek(tx: Tx, job_id: str, wait: Wait) -> bool:
    """Return whether `take` would return something: a read, to avoid a useless write."""
    if wait.jobs:
        return await tx.one(sql.unfinished_of, ids=json.dumps(wait.jobs)) is None
    return chosen(wait.condition, (await unread(tx, [job_id])).get(job_id, [])) is not None


async def take(tx: Tx, owner: str, job_id: str, epoch: int, wait: Wait) -> Answer | None:
    """Return the answer of a running job's wait, recorded as its step, if there is one; LeaseLost if not the owner."""
    if await tx.one(sql.lock_running, id=job_id, owner=owner, epoch=epoch) is None:
        raise LeaseLost(f"job {job_id} is no longer this worker's; nothing was taken")
    known = await tx.one(sql.get_answer, job_id=job_id, key=wait.key)
    if known is not None:
        return Answer.decode(await values.load(tx, known[0]))
    mail = (await unread(tx, [job_id])).get(job_id, [])
    answer = await _ready_answer(tx, job_id, wait, mail, link=False)
    if answer is not None:
        await _record(tx, job_id, wait.key, answer, terms_of(wait), None)
    return answer


async def jobs_ended(tx: Tx, ids: Sequence[str]) -> None:
    """Resume those of these jobs that are suspended until other jobs end: the last of those has ended."""
    for job_id in sorted(ids):
        await tx.one(sql.lock_job, id=job_id)
        wait = await awaited(tx, job_id)
        if wait is not None and wait.terms.jobs:
            await go_on(tx, job_id, wait.key, Answer("jobs"), wait.terms, wait.since)


async def awaited(tx: Tx, job_id: str) -> Awaited | None:
    """Return what a suspended job waits for. The caller has locked the job."""
    row = await tx.one(sql.get_wait, job_id=job_id)
    return None if row is None else Awaited(row[0], decode_terms(row[1]), *row[2:])


async def try_to_go_on(tx: Tx, job_id: str, wait: Awaited) -> bool:
    """Resume a suspended job after a signal, if its wait is over; False if not. The caller has locked the job."""
    seqs = chosen(wait.terms.condition, (await unread(tx, [job_id])).get(job_id, []))
    if seqs is None:
        return False
    return await go_on(tx, job_id, wait.key, await _answer(tx, job_id, wait.key, seqs), wait.terms, wait.since)


async def go_on(tx: Tx, job_id: str, key: str, answer: Answer, terms: Terms, since: int | None) -> bool:
    """Record the answer as the wait's step and make the suspended job ready; False if it is no longer suspended."""
    if not await _make_ready(tx, job_id, terms.delay):
        return False
    await _record(tx, job_id, key, answer, terms, since)
    await tx.one(sql.drop_wait, job_id=job_id)
    return True


async def leave(tx: Tx, job_id: str, terms: Terms) -> None:
    """Close what a finished wait had open: its waitpoints, and its edges to other jobs."""
    if terms.waitpoints:
        await tx.one(sql.close_waitpoints, job_id=job_id, ids=json.dumps(terms.waitpoints))
    if terms.jobs:
        await tx.one(sql.drop_wait_edges, job_id=job_id)
        await tx.one(sql.drop_wait_join, job_id=job_id)


async def unread(tx: Tx, ids: Iterable[str]) -> dict[str, list[Note]]:
    """Return the unread signals of jobs that have any, in the order of acceptance."""
    mail: dict[str, list[Note]] = {}
    for job_id, seq, name, waitpoint, source in await tx.all(sql.unread_signals, ids=json.dumps(list(ids))):
        mail.setdefault(job_id, []).append(Note(seq, name, waitpoint, source))
    return mail


async def gates_of(tx: Tx, waitpoints: Iterable[str]) -> dict[str, Gate]:
    ids = sorted(set(waitpoints))
    if not ids:
        return {}
    rows = await tx.all(sql.gates, ids=json.dumps(ids))
    return {id: Gate(expires_at, bool(once), bool(closed), name) for id, expires_at, once, closed, name in rows}


async def resting(tx: Tx, job_id: str) -> Rest | None:
    """Describe what a suspended job waits for, for operators."""
    wait = await awaited(tx, job_id)
    if wait is None:
        return None
    terms = wait.terms
    gates = await gates_of(tx, terms.waitpoints)
    names = (*terms.names, *(gates[id].name for id in terms.waitpoints if id in gates))
    has = len((await unread(tx, [job_id])).get(job_id, []))
    return Rest(names, terms.needed, terms.jobs, wait.since, wait.timeout_at, wait.on_timeout, has)


async def describe(tx: Tx, job_id: str, wait: Wait) -> None:
    """Set the schema of waitpoints, if it was not known when they were opened."""
    if wait.schema is not None:
        for id in wait.condition.waitpoints:
            await tx.one(sql.describe_waitpoint, id=id, job_id=job_id, schema=wait.schema)


def terms_of(wait: Wait) -> Terms:
    asked = wait.condition
    return Terms(
        names=asked.names,
        waitpoints=asked.waitpoints,
        needed=asked.needed,
        distinct=asked.distinct,
        jobs=bool(wait.jobs),
        schema=wait.schema,
        delay=wait.delay,
        called=wait.called,
        position=wait.position,
    )


def decode_terms(text: str) -> Terms:
    return msgspec.json.decode(text, type=Terms)


async def _unanswered(tx: Tx, waits: Mapping[str, Wait]) -> Mapping[str, Wait]:
    """Leave out waits whose answer is in the journal already, though their run did not see it: their jobs resume."""
    keys = json.dumps(sorted({wait.key for wait in waits.values()}))
    found = await tx.all(sql.answered_waits, ids=json.dumps(list(waits)), keys=keys)
    answered = {job_id for job_id, key in found if waits[job_id].key == key}
    for job_id in sorted(answered):
        await _make_ready(tx, job_id, 0)
    return {job_id: wait for job_id, wait in waits.items() if job_id not in answered}


async def _make_ready(tx: Tx, job_id: str, delay: int) -> bool:
    row = await tx.one(sql.resume_job, id=job_id, delay=delay)
    if row is not None:
        tx.notify(f"queue:{row[0]}")
    return row is not None


async def _ready_answer(
    tx: Tx, job_id: str, wait: Wait, mailbox: Sequence[Note], *, link: bool = True
) -> Answer | None:
    """Return the answer, if the wait is over. Otherwise, with `link`, link the job to those that it waits for."""
    seqs = chosen(wait.condition, mailbox)
    if seqs is not None:
        return await _answer(tx, job_id, wait.key, seqs)
    if not wait.jobs:
        return None
    if link:
        over = await edges.await_jobs(tx, job_id, wait.jobs)
    else:
        over = await tx.one(sql.unfinished_of, ids=json.dumps(wait.jobs)) is None
    return Answer("jobs") if over else None


async def _answer(tx: Tx, job_id: str, key: str, seqs: Sequence[int]) -> Answer:
    """Consume these signals."""
    rows = await tx.all(sql.take_signals, job_id=job_id, key=key, seqs=json.dumps(seqs))
    taken = [
        Received(name, msgspec.Raw((await values.load(tx, payload)).encode()), waitpoint, source, seq, at)
        for seq, name, waitpoint, payload, source, at in sorted(rows, key=lambda row: row[0])
    ]
    return Answer("signals", tuple(taken))


async def _record(tx: Tx, job_id: str, key: str, answer: Answer, terms: Terms, since: int | None) -> None:
    kind, _, rest = key.partition(":")
    text = answer.encode()
    column = values.column_of(text)
    await tx.one(
        sql.insert_answer,
        job_id=job_id,
        key=key,
        kind=kind,
        name=rest.rpartition("#")[0] or rest,
        called=terms.called,
        position=terms.position,
        value=column,
        since=since,
    )
    await values.keep(tx, job_id, "step", key, column, text)
    await leave(tx, job_id, terms)


def _row(job_id: str, wait: Wait, hopeless_at: int | None) -> dict[str, Value]:
    return {
        "job_id": job_id,
        "key": wait.key,
        "condition": msgspec.json.encode(terms_of(wait)).decode(),
        "timeout": wait.timeout,
        "hope": hopeless_at,
        "on_timeout": wait.on_timeout,
    }
