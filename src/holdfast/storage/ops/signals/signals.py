"""Signals: accepted into a job's mailbox from a trusted caller, or from a caller with the token of a waitpoint."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from ....errors import JobEnded, NotFound, PayloadMismatch, SignalConflict, TooManySignals
from ....model.jobs import TERMINAL, JobState
from ....model.signals import MAX_SIGNALS, ReceivedSignal, Sent, Signal, name_of
from ....model.values import instant_of, is_same
from ....rules.schemas import misfit
from ....rules.signals import Parsed, is_signed, parse
from ...port import Row, Tx
from ...statements import sql
from ..audit import audit
from ..jobs import values
from .keys import verifying_secret
from .suspension import awaited, try_to_go_on, unread
from .waitpoints import WaitpointRecord, get_waitpoint


async def send(tx: Tx, job_id: str, signal: Signal) -> Sent:
    """Accept a signal for a job by its id; it goes to an open waitpoint of that name, if any."""
    row = await tx.one(sql.lock_job, id=job_id)
    if row is None or signal.tenant not in (None, row[1]):
        raise NotFound("job", job_id)
    if signal.key is not None and (earlier := await tx.one(sql.signal_by_key, job_id=job_id, idem_key=signal.key)):
        return _again(job_id, signal, earlier)
    state, _, generation, queue = row
    if JobState(state) in TERMINAL:
        raise JobEnded(job_id, state)
    _wake_claimers(tx, state, queue)
    place = await tx.one(sql.open_waitpoint_named, job_id=job_id, name=signal.name, generation=generation)
    waitpoint, schema, once = place or (None, None, 0)
    return await _accept(tx, job_id, state, signal, waitpoint, schema, closes=bool(once))


async def is_refused(tx: Tx, token: str, signal: Signal) -> bool:
    """Return whether `send_by_token` would refuse this, without a write. Every token takes the same statements."""
    parsed, secret, place, earlier = await _look_up(tx, token, signal)
    if not is_signed(parsed, secret) & _is_meant(parsed, place, signal):
        return True
    assert place is not None
    return not (place.is_open if earlier is None else _is_repeated(place, signal, earlier))


async def note_refusals(tx: Tx, counts: Mapping[str, int]) -> None:
    """Add refused tokens to the count of the store, and to those of the waitpoints that they named."""
    await tx.one(sql.count_refusals, n=sum(counts.values()))
    for jti, count in counts.items():
        await tx.one(sql.note_refusals, id=jti, n=count)


async def send_by_token(tx: Tx, token: str, signal: Signal) -> Sent | None:
    """Accept a signal for the waitpoint of a token; None for every invalid token.

    Nothing is read, not even a state, before the token has been verified, and every refusal takes the same
    statements, writes included. An empty name takes the one that the token was made for.
    """
    parsed, secret, place, earlier = await _look_up(tx, token, signal)
    if is_signed(parsed, secret) & _is_meant(parsed, place, signal):
        assert place is not None
        named = Signal(name=place.name, payload=signal.payload, source=signal.source, key=signal.key)
        if earlier is not None and _is_repeated(place, signal, earlier):
            return Sent(place.job_id, earlier[0], "stored", again=True, waits_for=())
        if earlier is None and place.is_open and (sent := await _accept_at(tx, place, named)):
            return sent
    await note_refusals(tx, {parsed.claims.jti: 1})
    return None


async def _look_up(
    tx: Tx, token: str, signal: Signal
) -> tuple[Parsed, bytes | None, WaitpointRecord | None, Row | None]:
    """Return the token, its key, its waitpoint and an earlier signal with the same key: nothing is trusted yet."""
    parsed = parse(token)
    secret = await verifying_secret(tx, parsed.kid)
    place = await get_waitpoint(tx, parsed.claims.jti)
    earlier = await tx.one(sql.signal_by_key, job_id=parsed.claims.job, idem_key=signal.key or "")
    return parsed, secret, place, earlier


def _is_repeated(place: WaitpointRecord, signal: Signal, earlier: Row) -> bool:
    return bool(earlier[2] == place.id) and _is_same(replace(signal, name=place.name), earlier)


async def answer(tx: Tx, waitpoint: str, signal: Signal, *, actor: str, reason: str) -> Sent | None:
    """Accept an operator's signal for a pending wait, by its id; None where it accepts none any more. It is audited."""
    job_id, name = name_of(waitpoint)
    if name:
        sent = await _answer_name(tx, job_id, replace(signal, name=name))
    else:
        place = await get_waitpoint(tx, waitpoint)
        if place is None or signal.tenant not in (None, place.tenant):
            raise NotFound("waitpoint", waitpoint)
        job_id, name = place.job_id, place.name
        sent = await _accept_at(tx, place, replace(signal, name=name)) if place.is_open else None
    if sent is not None:
        said = {"action": "job.answer", "target": job_id, "reason": reason}
        await audit(tx, actor=actor, **said, after={"waitpoint": name, "signal": sent.seq})
    return sent


async def _answer_name(tx: Tx, job_id: str, signal: Signal) -> Sent | None:
    row = await tx.one(sql.lock_job, id=job_id)
    if row is None or signal.tenant not in (None, row[1]):
        raise NotFound("job", job_id)
    wait = await awaited(tx, job_id) if row[0] == JobState.SUSPENDED else None
    if wait is None or signal.name not in wait.terms.names:
        return None
    came = (await unread(tx, [job_id])).get(job_id, [])
    if wait.terms.needed == 0 and any(note.name == signal.name for note in came):
        return None
    return await send(tx, job_id, signal)


async def mailbox(tx: Tx, job_id: str, *, before: int = MAX_SIGNALS + 1, limit: int = 100) -> list[ReceivedSignal]:
    """List the signals of a job, newest first, read or not."""
    rows = await tx.all(sql.signals_of, job_id=job_id, before=before, n=limit)
    return [
        ReceivedSignal(seq, name, waitpoint, source, instant_of(at), taken_by)
        for seq, name, waitpoint, source, at, taken_by in rows
    ]


async def refused_tokens(tx: Tx) -> int:
    """Return how many tokens were refused since the store was created."""
    row = await tx.one(sql.refusals)
    return int(row[0]) if row else 0


async def _accept_at(tx: Tx, place: WaitpointRecord, signal: Signal) -> Sent | None:
    """Check again under the lock of the job: another signal, or the job's end, may have come first."""
    row = await tx.one(sql.lock_job, id=place.job_id)
    found = await get_waitpoint(tx, place.id)
    if row is None or found is None or not found.is_open:
        return None
    _wake_claimers(tx, row[0], row[3])
    return await _accept(tx, place.job_id, row[0], signal, place.id, found.schema, closes=bool(found.once))


async def _accept(
    tx: Tx, job_id: str, state: str, signal: Signal, waitpoint: str | None, schema: str | None, *, closes: bool
) -> Sent:
    wait = await awaited(tx, job_id) if state == "suspended" else None
    expected = wait.terms.schema if wait is not None and signal.name in wait.terms.names else None
    for known in (schema, expected):
        if known is not None and (fault := misfit(known, signal.payload)):
            raise PayloadMismatch(fault)
    payload = values.column_of(signal.payload)
    row = await tx.one(
        sql.insert_signal, job_id=job_id, name=signal.name, waitpoint=waitpoint, payload=payload,
        source=signal.source, idem_key=signal.key, most=MAX_SIGNALS,
    )  # fmt: skip
    if row is None:
        raise TooManySignals(job_id, MAX_SIGNALS)
    await values.keep(tx, job_id, "signal", str(row[0]), payload, signal.payload)
    if closes and waitpoint is not None:
        await tx.one(sql.close_waitpoint, id=waitpoint)
    resumed = wait is not None and await try_to_go_on(tx, job_id, wait)
    effect: Literal["stored", "resumed"] = "resumed" if resumed else "stored"
    if wait is None or waitpoint is not None or signal.name in wait.terms.names:
        return Sent(job_id, row[0], effect, again=False, waits_for=())
    return Sent(job_id, row[0], effect, again=False, waits_for=tuple(wait.terms.names))


def _wake_claimers(tx: Tx, state: str, queue: str) -> None:
    """Wake workers: a claim in progress skips the job, whose row is locked here."""
    if state == JobState.READY:
        tx.notify(f"queue:{queue}")


def _is_meant(parsed: Parsed, place: WaitpointRecord | None, signal: Signal) -> bool:
    """Return whether the claims are those of the waitpoint, and the caller may see it."""
    if place is None:
        return False
    return (
        place.claims == parsed.claims
        and hmac.compare_digest(place.kid, parsed.kid)
        and place.is_current
        and signal.tenant in (None, place.tenant)
        and signal.name in ("", place.name)
    )


def _again(job_id: str, signal: Signal, earlier: Row) -> Sent:
    if not _is_same(signal, earlier):
        raise SignalConflict(job_id, signal.key or "")
    return Sent(job_id, earlier[0], "stored", again=True, waits_for=())


def _is_same(signal: Signal, earlier: Row) -> bool:
    _, name, _, payload = earlier
    return bool(name == signal.name and is_same(payload, signal.payload))
