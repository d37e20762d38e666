"""Signals, and the waitpoints where they arrive."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..model.signals import Pending
from ..model.values import decoded, instant_of


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


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """The job goes on."""

    job_id: str
    resumed: bool


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
