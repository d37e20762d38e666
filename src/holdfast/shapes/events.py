"""The log of what happens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..model.events import Event as EventRecord
from ..model.values import instant_of


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. What does not apply is left out."""

    cursor: str
    at: datetime | None
    kind: str
    tenant: str = ""
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    previous: str | None = None
    state: str | None = None
    reason: str | None = None
    attempt: int = 0
    epoch: int = 0
    worker: str | None = None
    tags: list[str] = []
    flow: str | None = None
    detail: dict[str, Any] = {}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Some events in their order. `next` is where to read on, also where there are no more for now."""

    items: list[Event]
    next: str


def of_event(event: EventRecord) -> Event:
    return Event(
        cursor=event.cursor,
        at=instant_of(event.at),
        kind=event.kind,
        tenant=event.tenant,
        job=event.job,
        task=event.task,
        queue=event.queue,
        previous=event.previous,
        state=event.state,
        reason=event.reason,
        attempt=event.attempt,
        epoch=event.epoch,
        worker=event.worker,
        tags=list(event.tags),
        flow=event.flow,
        detail=dict(event.detail),
    )
