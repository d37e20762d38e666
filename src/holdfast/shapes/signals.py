"""Signals, and the waitpoints where they arrive."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from ..model.signals import Pending, Sent
from ..model.signals import ReceivedSignal as ReceivedSignalRecord
from ..model.values import decoded, instant_of


class SignalSent(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending a signal. `again`: it was accepted before, under the same key, and nothing was changed.

    `waits_for`: what the job waits for now, where this signal is not among it and so is kept for a later wait.
    """

    job_id: str
    seq: int
    effect: Literal["stored", "resumed"]
    again: bool
    waits_for: list[str]


class Waitpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A place that takes a signal, without its token. `schema` is that of the payload, for a form.

    A name that a suspended job waits for is one, too. It has no token, so its `kid` is empty.
    """

    id: str
    name: str
    job_id: str
    task: str
    queue: str
    tenant: str
    kid: str
    schema: Any
    awaited: bool
    created_at: datetime | None
    expires_at: datetime | None
    refusals: int
    refused_at: datetime | None


class ReceivedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that a job was sent, without its payload. `taken_by` is the step that it became the answer of."""

    seq: int
    name: str
    waitpoint: str | None
    source: str
    at: datetime | None
    taken_by: str | None


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """The job goes on."""

    job_id: str
    resumed: bool


def of_sent(sent: Sent) -> SignalSent:
    return SignalSent(
        job_id=sent.job_id, seq=sent.seq, effect=sent.effect, again=sent.again, waits_for=list(sent.waits_for)
    )


def of_pending(one: Pending) -> Waitpoint:
    return Waitpoint(
        id=one.id,
        name=one.name,
        job_id=one.job_id,
        task=one.task,
        queue=one.queue,
        tenant=one.tenant,
        kid=one.kid,
        schema=decoded(one.schema),
        awaited=one.awaited,
        created_at=instant_of(one.created_at),
        expires_at=instant_of(one.expires_at),
        refusals=one.refusals,
        refused_at=instant_of(one.refused_at),
    )


def of_received(one: ReceivedSignalRecord) -> ReceivedSignal:
    return ReceivedSignal(
        seq=one.seq,
        name=one.name,
        waitpoint=one.waitpoint,
        source=one.source,
        at=instant_of(one.at),
        taken_by=one.taken_by,
    )
