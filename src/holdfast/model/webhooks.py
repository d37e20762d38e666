"""Webhooks: who is told of what happens, and what became of telling them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

TASK: Final = "webhook.deliver"
QUEUE: Final = "webhooks"
BREAKER: Final = "webhook:"
"""The beginning of the breakers and lanes of endpoints."""
CALLED_TAG: Final = "webhook:"
"""A job's tag that names the endpoint which hears of it."""
WANTED_TAG: Final = "webhook-on:"
"""A job's tags that say of which events; without any, of all."""
EVERY_TAG: Final = f"{WANTED_TAG}*"
"""A job's tag that makes the log tell of every transition, whatever its queue tells. Triggers look for it, too."""
_list: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_result: Final = msgspec.json.Decoder(dict[str, int]).decode
_error: Final = msgspec.json.Decoder(dict[str, str]).decode
_SAID: Final = re.compile(r"(?:(\d{3}) )?after (\d+) ms: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A URL that is told of what happens. Instants are microseconds."""

    id: str
    tenant: str
    """It hears of this tenant's jobs alone; "" is the operators', and hears of all."""
    url: str
    """Of one that jobs name, its scheme and host alone."""
    events: tuple[str, ...] | None
    """Kinds, or their beginnings: "job.failed", "job", "flow"; None is all that is told of jobs."""
    tags: tuple[str, ...] | None
    """It hears of jobs with at least one of them; None is of all."""
    called: bool
    """True if it hears only of jobs that name it, by `webhook=`."""
    state: str
    """active or disabled."""
    reason: str | None
    """The reason for which it is disabled: "gone" (it answered 410), "failing", or an operator's text."""
    concurrency: int
    after: int
    """The number of the event after which it hears."""
    succeeded_at: int | None
    """About when a delivery last came through."""
    created_at: int
    updated_at: int
    secret: str = field(default="", repr=False)
    """Only where it was just made or changed."""


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
        """The share of ended deliveries that succeeded; None where none has ended."""
        ended = [state for state in self.states if state in ("succeeded", "failed", "expired")]
        return ended.count("succeeded") / len(ended) if ended else None


@dataclass(frozen=True, slots=True)
class Sending:
    """One try of a delivery."""

    attempt: int
    at: int
    status: int | None
    """None where no answer came."""
    ms: int | None
    detail: str
    """The response, shortened and without anything that looks like a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message to an endpoint. It is a job: `id` finds it among them."""

    id: str
    endpoint: str
    message: str
    """Its id for the receiver, the same however often it is sent."""
    kind: str
    job: str | None
    """The job that it tells of."""
    at: int
    state: str
    attempts: int
    next_at: int | None
    """When it is tried next, if it waits."""
    finished_at: int | None
    status: int | None
    """The last answer's."""
    ms: int | None
    error: str | None
    tries: tuple[Sending, ...] = ()
    """Those that failed, the oldest first; only of a single delivery."""


def endpoint_of(row: tuple[Any, ...], secret: str = "") -> Endpoint:
    """From its columns."""
    id, tenant, url, events, tags, called, state, reason, concurrency, after, succeeded, created, updated = row[:13]
    return Endpoint(
        id=id, tenant=tenant, url=url, events=_words(events), tags=_words(tags), called=bool(called), state=state,
        reason=reason, concurrency=concurrency, after=after, succeeded_at=succeeded, created_at=created,
        updated_at=updated, secret=secret,
    )  # fmt: skip


def delivery_of(row: tuple[Any, ...], tries: tuple[Sending, ...] = ()) -> Delivery:
    """From its columns and those of its job."""
    id, endpoint, message, kind, job, at, state, attempts, due, finished, result, error, _ = row
    status, ms, text = said_by(result, error)
    return Delivery(
        id=id, endpoint=endpoint, message=message, kind=kind, job=job, at=at, state=state, attempts=attempts,
        next_at=due if state == "ready" else None, finished_at=finished, status=status, ms=ms, error=text, tries=tries,
    )  # fmt: skip


def said_by(result: object, error: object) -> tuple[int | None, int | None, str | None]:
    """The status, the milliseconds and the words, from what is stored of a run."""
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
    """A failure as it is stored; `said_by` reads it."""
    return f"{status} after {ms} ms: {words}" if status else f"after {ms} ms: {words}"


def _words(text: object) -> tuple[str, ...] | None:
    return _list(text) if isinstance(text, str) else None
