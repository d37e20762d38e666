"""The event log: one event, the rows it comes in, a reader's position, and its filter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..errors import Corruption, InvalidCursor, InvalidInput
from .values import Instant, instant_of

_CURSOR: Final = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)
_decode: Final = msgspec.json.Decoder(list[list[Any]]).decode
_decode_tags: Final = msgspec.json.Decoder(list[str]).decode
_FACTS: Final = 11
"""The number of facts about each job in an event about many."""


class Cursor(msgspec.Struct, frozen=True, order=True):
    """A position in the log: after some events of row `seq`. Rows before it are read, rows after it are not."""

    seq: int
    read: int

    def __str__(self) -> str:
        return f"{self.seq}-{self.read}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        match = _CURSOR.fullmatch(str(text))
        if match is None:
            raise InvalidCursor(f"{text!r} is not a cursor of the event log; pass back that of an event, or 'start'")
        return cls(int(match[1]), int(match[2]))


START: Final = Cursor(0, 0)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. Fields that do not apply are empty, and left out of its JSON."""

    cursor: str
    """Pass it back as `after` to continue after this event."""
    at: Instant
    kind: str
    """`job.succeeded`, `flow.failed`, `signal.received`, `operator.queue.pause` and so on."""
    tenant: str = ""
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    previous: str | None = None
    """The job's state before."""
    state: str | None = None
    reason: str | None = None
    attempt: int = 0
    epoch: int = 0
    """Of the run that it concerns."""
    worker: str | None = None
    tags: tuple[str, ...] = ()
    flow: str | None = None
    detail: dict[str, Any] = {}
    """Facts that only this kind has: a signal's name, an operator's target."""


class Chunk(msgspec.Struct, frozen=True):
    """A row of the log: the events of one transaction about many jobs (`body`), or a single event."""

    seq: int
    at: int
    body: str | None
    kind: str | None = None
    tenant: str | None = None
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    previous: str | None = None
    state: str | None = None
    reason: str | None = None
    attempt: int | None = None
    epoch: int | None = None
    worker: str | None = None
    tags: str | None = None
    flow: str | None = None
    name: str | None = None
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of the log, and the state of the log."""

    chunks: tuple[Chunk, ...]
    waits: bool
    """True if rows have been committed that are not in the log yet."""
    pruned_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that a reader asks for; None is everything."""

    kinds: tuple[str, ...] | None = None
    """Whole kinds, or their prefixes: `job.failed`, `job`, `operator`."""
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    flow: str | None = None
    tenant: str | None = None
    tag: str | None = None

    def wants(self, event: Event) -> bool:
        return (
            (self.kinds is None or any(event.kind == k or event.kind.startswith(f"{k}.") for k in self.kinds))
            and self.job in (None, event.job)
            and self.task in (None, event.task)
            and self.queue in (None, event.queue)
            and self.flow in (None, event.flow)
            and self.tenant in (None, event.tenant)
            and (self.tag is None or self.tag in event.tags)
        )


def events_of(chunk: Chunk, after: int = 0) -> Iterator[tuple[Cursor, Event]]:
    """Yield the events of a row after its first `after`, in order, each with the position after it."""
    if chunk.body is None:
        behind = Cursor(chunk.seq + 1, 0)
        yield behind, _single(chunk, str(behind))
        return
    kept, at = _kept(chunk), instant_of(chunk.at)
    for n, facts in enumerate(kept[after:], after + 1):
        # After the last one, the position is the next row: nothing is missed when this one is pruned.
        place = Cursor(chunk.seq + 1, 0) if n == len(kept) else Cursor(chunk.seq, n)
        job, task, queue, tenant, previous, state, attempt, epoch, worker, tags, flow = facts
        yield place, Event(
            cursor=str(place), at=at, kind=f"job.{_verb(previous, state, None)}", tenant=tenant, job=job,
            task=task, queue=queue, previous=previous, state=state, attempt=attempt, epoch=epoch, worker=worker,
            tags=_tags(tags), flow=flow,
        )  # fmt: skip


def _kept(chunk: Chunk) -> list[list[Any]]:
    try:
        kept = _decode(chunk.body or "")
    except msgspec.DecodeError as wrong:
        raise Corruption(f"row {chunk.seq} of the event log cannot be read: {wrong}") from wrong
    if any(len(facts) != _FACTS for facts in kept):
        raise Corruption(f"row {chunk.seq} of the event log holds what no version of Holdfast writes")
    return kept


def _single(chunk: Chunk, cursor: str) -> Event:
    detail: dict[str, Any] = {}
    match chunk.kind:
        case "job":
            kind = f"job.{_verb(chunk.previous, chunk.state or '', chunk.reason)}"
        case "stage":
            kind, detail = "job.stage", {"stage": chunk.name, "previous_stage": chunk.target}
        case "signal":
            kind, detail = "signal.received", {"name": chunk.name, "source": chunk.source}
        case "flow":
            kind, detail = f"flow.{chunk.state}", {"name": chunk.name}
        case "operator":
            kind, detail = f"operator.{chunk.name}", {"actor": chunk.source, "target": chunk.target}
        case _:
            raise Corruption(f"row {chunk.seq} of the event log is of a kind that no version of Holdfast writes")
    return Event(
        cursor=cursor, at=instant_of(chunk.at), kind=kind, tenant=chunk.tenant or "", job=chunk.job, task=chunk.task,
        queue=chunk.queue, previous=chunk.previous, state=chunk.state, reason=chunk.reason,
        attempt=chunk.attempt or 0, epoch=chunk.epoch or 0, worker=chunk.worker, tags=_tags(chunk.tags),
        flow=chunk.flow, detail=detail,
    )  # fmt: skip


def _tags(text: str | None) -> tuple[str, ...]:
    return tuple(_decode_tags(text)) if text else ()


def _verb(previous: str | None, state: str, reason: str | None) -> str:
    """Return the last word of an event's kind, from the states before and after."""
    if previous is None:
        return "enqueued"
    if state == "running":
        return "started"
    if state == "ready":
        return _AGAIN.get((previous, reason)) or _READY.get(previous, "retried")
    return state


# Ready again: after a run named by its reason, else by the state before.
_AGAIN: Final[dict[tuple[str, str | None], str]] = {
    ("running", "retry"): "retried",
    ("running", "rescue"): "rescued",
    ("running", "throttle"): "throttled",
    ("running", "snooze"): "snoozed",
    ("running", "sleep"): "snoozed",
}
_READY: Final = {"running": "released", "suspended": "resumed", "blocked": "unblocked"}
_ENDS: Final = ("succeeded", "failed", "cancelled")
_VERBS: Final = {
    "job": {*_ENDS, *_AGAIN.values(), *_READY.values(), "expired", "skipped", "enqueued", "started", "suspended"}
    | {"blocked", "stage"},
    "flow": {*_ENDS},
    "signal": {"received"},
}


def check_kinds(kinds: object) -> tuple[str, ...] | None:
    """Check the kinds that a reader asks for. A kind that no event has is refused: the reader would wait forever."""
    if kinds is None:
        return None
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds) if isinstance(kinds, list | tuple) else ()
    if not given:
        raise InvalidInput(f"kinds is {kinds!r}; give such as 'job.failed' or ('job', 'flow'), or leave it out for all")
    for kind in given:
        family, dot, verb = kind.partition(".") if isinstance(kind, str) else ("", "", "")
        if family != "operator" and (family not in _VERBS or (dot and verb not in _VERBS[family])):
            known = sorted(f"{family}.{verb}" for verb in _VERBS[family]) if family in _VERBS else [*_VERBS, "operator"]
            raise InvalidInput(f"there are no events of kind {kind!r}; use one of {', '.join(known)}")
    return given
