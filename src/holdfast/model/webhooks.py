"""Webhooks: endpoints that are notified of events, and the deliveries to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from .values import Instant, instant_of

TASK: Final = "webhook.deliver"
QUEUE: Final = "webhooks"
BREAKER: Final = "webhook:"
"""The prefix of the breakers and lanes of endpoints."""
CALLED_TAG: Final = "webhook:"
"""A job's tag that names the endpoint to notify."""
WANTED_TAG: Final = "webhook-on:"
"""A job's tags that name the events to send; without any, all."""
EVERY_TAG: Final = f"{WANTED_TAG}*"
"""A job's tag that logs every transition, whatever its queue's setting. Triggers check for it, too."""
_list: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_result: Final = msgspec.json.Decoder(dict[str, int]).decode
_error: Final = msgspec.json.Decoder(dict[str, str]).decode
_SAID: Final = re.compile(r"(?:(\d{3}) )?after (\d+) ms: ")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that is notified of events."""

    id: str
    tenant: str
    """The only tenant whose events it gets; "" is the operators', which gets all."""
    url: str
    """Only the scheme and host for an endpoint that jobs name, and over HTTP for callers that may not operate."""
    events: tuple[str, ...] | None
    """Kinds, or their prefixes: "job.failed", "job", "flow"; None is all events of jobs."""
    tags: tuple[str, ...] | None
    """It gets events of jobs with at least one of these tags; None is all jobs."""
    called: bool
    """True if it only gets events of jobs that name it, by `webhook=`."""
    state: str
    """active or disabled."""
    reason: str | None
    """The reason why it is disabled: "gone" (it answered 410), "failing", or an operator's text."""
    concurrency: int
    succeeded_at: Instant | None
    """The approximate time of the last successful delivery."""
    created_at: Instant
    updated_at: Instant


class NewEndpoint(Endpoint, frozen=True, kw_only=True):
    """An endpoint with the secret that signs its messages, which is shown only when it is new."""

    secret: str

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Leave the secret out of texts and logs."""
        return [("id", self.id), ("url", self.url)]

    def __repr__(self) -> str:
        return f"NewEndpoint(id={self.id!r}, url={self.url!r})"


@dataclass(frozen=True, slots=True)
class Signed:
    """The parts of an endpoint that a delivery needs, with the secrets that sign now."""

    url: str
    state: str
    reason: str | None
    secrets: tuple[str, ...] = field(repr=False)
    succeeded_at: int | None
    now: int


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an endpoint: its breaker, and the states of its latest deliveries, the newest first."""

    breaker: str = "closed"
    """closed, open or half_open."""
    open_until: int | None = None
    failures: int = 0
    """In a row, while it is closed."""
    states: tuple[str, ...] = ()
    newest_at: int | None = None

    @property
    def rate(self) -> float | None:
        """The share of ended deliveries that succeeded; None if none has ended."""
        ended = [state for state in self.states if state in ("succeeded", "failed", "expired")]
        return ended.count("succeeded") / len(ended) if ended else None


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt of a delivery."""

    attempt: int
    at: Instant
    status: int | None
    """None if no answer came."""
    ms: int | None
    detail: str
    """The response, shortened and without anything that looks like a secret."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an endpoint. It is a job: `id` finds it among them."""

    id: str
    endpoint: str
    message: str
    """Its id for the receiver, the same for each attempt."""
    event: str
    """The kind of the event."""
    job: str | None
    """The job that it is about."""
    at: Instant
    state: str
    attempts: int
    next_at: Instant | None
    """The time of the next attempt, if it waits."""
    finished_at: Instant | None
    status: int | None
    """The last answer's."""
    ms: int | None
    error: str | None


class DeliveryWhole(Delivery, frozen=True, kw_only=True):
    """A delivery with its failed attempts, the oldest first."""

    tries: tuple[Try, ...]


def endpoint_of(row: tuple[Any, ...]) -> Endpoint:
    """Make an endpoint from its columns."""
    return Endpoint(**_endpoint_facts(row))


def new_endpoint_of(row: tuple[Any, ...]) -> NewEndpoint:
    """Make an endpoint with its secret from its columns."""
    return NewEndpoint(**_endpoint_facts(row), secret=row[13])


def delivery_of(row: tuple[Any, ...]) -> Delivery:
    """Make a delivery from its columns and those of its job."""
    return Delivery(**_delivery_facts(row))


def whole_delivery_of(row: tuple[Any, ...], tries: tuple[Try, ...]) -> DeliveryWhole:
    """Make a delivery with its failed attempts."""
    return DeliveryWhole(**_delivery_facts(row), tries=tries)


def _endpoint_facts(row: tuple[Any, ...]) -> dict[str, Any]:
    id, tenant, url, events, tags, called, state, reason, concurrency, _, succeeded, created, updated = row[:13]
    return {
        "id": id, "tenant": tenant, "url": url, "events": _words(events), "tags": _words(tags), "called": bool(called),
        "state": state, "reason": reason, "concurrency": concurrency, "succeeded_at": instant_of(succeeded),
        "created_at": instant_of(created), "updated_at": instant_of(updated),
    }  # fmt: skip


def _delivery_facts(row: tuple[Any, ...]) -> dict[str, Any]:
    id, endpoint, message, kind, job, at, state, attempts, due, finished, result, error, _ = row
    status, ms, text = said_by(result, error)
    return {
        "id": id, "endpoint": endpoint, "message": message, "event": kind, "job": job, "at": instant_of(at),
        "state": state, "attempts": attempts, "next_at": instant_of(due) if state == "ready" else None,
        "finished_at": instant_of(finished), "status": status, "ms": ms, "error": text,
    }  # fmt: skip


def said_by(result: object, error: object) -> tuple[int | None, int | None, str | None]:
    """Return the status, the milliseconds and the text that are stored of a run."""
    if isinstance(result, str):
        found = _result(result)
        return found.get("status"), found.get("ms"), None
    if not isinstance(error, str):
        return None, None, None
    text = _error(error).get("message", "")
    match = _SAID.match(text)
    if match is None:
        return None, None, text
    return int(match[1]) if match[1] else None, int(match[2]), text[match.end() :]


def failure_text(status: int | None, ms: int, words: str) -> str:
    """Return a failure as it is stored; `said_by` reads it."""
    return f"{status} after {ms} ms: {words}" if status else f"after {ms} ms: {words}"


def _words(text: object) -> tuple[str, ...] | None:
    return _list(text) if isinstance(text, str) else None
