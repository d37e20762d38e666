"""Choose the endpoints of an event, build the messages, and space the retries."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.artifacts import COMPLETION
from ..model.events import Event
from ..model.events import check_kinds as check_known
from ..model.jobs import JobState, last_error
from ..model.values import instant_of
from ..model.webhooks import CALLED_TAG, EVERY_TAG, TASK, WANTED_TAG, Endpoint

SCHEDULE: Final = tuple(s * SECOND for s in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400))
"""The wait before each attempt, after the one before, in microseconds."""
ATTEMPTS: Final = len(SCHEDULE)
SPREAD: Final = 0.2
BODY_LIMIT: Final = 256 * 1024
_MADE_AT_ONCE: Final = 16 * 1024 * 1024
"""The most bytes of results in the messages of one transaction, because others wait for it."""
_SMALL_RESULT: Final = 16_000
_API: Final = "/api/v1"
_ERROR_LIMIT: Final = 2_048
_ARTIFACTS: Final = 32
_UNSAID: Final = ("job",)
_ENDS: Final = frozenset({"job.succeeded", "job.failed", "job.cancelled", "job.expired", "job.skipped"})
_ORIGIN: Final = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_KIND: Final = re.compile(r"(?:job|flow|signal|operator)(?:\.[a-z_]{1,32}){0,3}")


@dataclass(frozen=True, slots=True)
class Told:
    """The stored facts about an event's job, as they were when its messages were made."""

    id: str

    state: str
    reason: str | None
    error: str | None
    result: str | None
    """None also if it is too large to be sent."""
    result_size: int | None
    artifacts: tuple[tuple[str, str, int], ...] = ()
    """Name, content type and size of each."""
    errors: Mapping[int, str | None] = field(default_factory=dict)
    """The errors of its runs, by epoch."""


def receives(endpoint: Endpoint, event: Event) -> bool:
    """Return whether an endpoint is notified of an event. Deliveries cause no notifications: that would never end."""
    if event.task == TASK or endpoint.tenant not in ("", event.tenant):
        return False
    if endpoint.called:
        return endpoint.tenant == event.tenant and _is_called(endpoint, event)
    return takes_kind(endpoint, event.kind) and (endpoint.tags is None or not set(endpoint.tags).isdisjoint(event.tags))


def takes_kind(endpoint: Endpoint, kind: str) -> bool:
    """Return whether an endpoint that no job names is notified of some events of a kind."""
    return _is_among(kind, _UNSAID if endpoint.events is None else endpoint.events)


def wanted_by(kinds: Iterable[str]) -> list[str]:
    """Return the subscriptions that match any of these kinds: the kinds, and their prefixes."""
    found: set[str] = set()
    for kind in set(kinds):
        words = kind.split(".")
        found.update(".".join(words[:n]) for n in range(1, len(words) + 1))
    return sorted(found)


def called_by(events: Iterable[Event]) -> list[str]:
    """Return the endpoints that the jobs of these events name."""
    named = {tag.removeprefix(CALLED_TAG) for event in events for tag in event.tags if tag.startswith(CALLED_TAG)}
    return sorted(named)


def call_tags(endpoint: str, events: Collection[str]) -> tuple[str, ...]:
    """Return the tags by which a job names its endpoint."""
    every = () if _ENDS.issuperset(events) else (EVERY_TAG,)
    return (f"{CALLED_TAG}{endpoint}", *(f"{WANTED_TAG}{kind}" for kind in events), *every)


def asks_for_ends(tags: str) -> bool:
    """Return whether a job with these stored tags names an endpoint, which is always notified of the job's end."""
    return f'"{CALLED_TAG}' in tags


def asks_for_all(tags: str) -> bool:
    """Return whether a job with these stored tags has an endpoint that is notified of more than its end."""
    return f'"{EVERY_TAG}"' in tags


def called_endpoint(tenant: str, url: str) -> str:
    """Return the id of the endpoint that jobs of a tenant name by a URL: one for each host."""
    return hashlib.sha256(f"{tenant}\x1f{origin_of(url)}".encode()).hexdigest()[:32]


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    match = _ORIGIN.match(url)
    return match[0].lower() if match else url


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Check kinds of events, or their prefixes."""
    if isinstance(kinds, str):
        raise InvalidInput(f"events is {kinds!r}; use a list, such as [{kinds!r}]")
    if not kinds:
        raise InvalidInput("events is empty, so nothing would ever be sent; leave it out for all events of jobs")
    if wrong := [kind for kind in kinds if not _KIND.fullmatch(kind)]:
        raise InvalidInput(f"{wrong[0]!r} is not a kind of event; use such as 'job.failed', 'job' or 'flow'")
    check_known(list(kinds))
    return tuple(dict.fromkeys(kinds))


def check_call_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Check kinds of events that are about a job: an endpoint that a job names gets no others."""
    checked = check_kinds(kinds)
    if wrong := [kind for kind in checked if kind != "job" and not kind.startswith("job.")]:
        raise InvalidInput(
            f"{wrong[0]!r} is not an event of a job; use such as 'job.failed', or app.webhooks.add for all else"
        )
    return checked


def message(message_id: str, event: Event, told: Told | None) -> str:
    """Return the body of a delivery: JSON of at most 256 KiB. Parts that do not fit are omitted and marked so."""
    data: dict[str, Any] = {
        "job": event.job, "task": event.task, "queue": event.queue, "tenant": event.tenant or None,
        "tags": own_tags(event.tags), "flow": event.flow, "state": event.state, "previous_state": event.previous,
        "reason": event.reason, "attempt": event.attempt, **event.detail, **_outcome(event, told),
    }  # fmt: skip
    body = {"id": message_id, "type": event.kind, "timestamp": timestamp(event.at), "data": data}
    for left_out in ("result", "artifacts", "error", "tags", "detail"):
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        if len(text.encode()) <= BODY_LIMIT:
            return text
        if left_out == "result" and told is not None and data.get("result"):
            data |= _referred(told)
        _leave_out(data, left_out)
    return json.dumps({**body, "data": {"job": event.job, "state": event.state}}, separators=(",", ":"))


def result_limit(messages: int) -> int:
    """Return the size up to which results are sent along, by how many messages are made in one transaction."""
    return max(_SMALL_RESULT, min(BODY_LIMIT, _MADE_AT_ONCE // max(1, messages)))


def is_end_of_run(event: Event) -> bool:
    """Return whether a run ended with this event, other than by success: such a run has an attempt with its error."""
    return event.previous == JobState.RUNNING and event.state not in (JobState.RUNNING, JobState.SUCCEEDED)


def trial_message(message_id: str, endpoint: str, now: int) -> str:
    """Return the body of a test message."""
    data = {"endpoint": endpoint, "message": "a test delivery"}
    return json.dumps({"id": message_id, "type": "webhook.test", "timestamp": timestamp(instant_of(now)), "data": data})


def own_tags(tags: Sequence[str]) -> list[str]:
    """Return a job's tags without those that Holdfast added."""
    return [tag for tag in tags if not tag.startswith((CALLED_TAG, WANTED_TAG))]


def wait_before_next(attempt: int, said: int | None, u: float) -> int:
    """Return the wait after the `attempt`-th try failed, in microseconds: at least what the receiver asked for."""
    planned = SCHEDULE[min(attempt, ATTEMPTS - 1)]
    return max(round(planned * (1 + SPREAD * u)), said or 0)


def is_last(attempt: int) -> bool:
    return attempt >= ATTEMPTS


def timestamp(at: datetime) -> str:
    """Return an instant as receivers read it: ISO 8601 in UTC."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_called(endpoint: Endpoint, event: Event) -> bool:
    if f"{CALLED_TAG}{endpoint.id}" not in event.tags:
        return False
    wanted = [tag.removeprefix(WANTED_TAG) for tag in event.tags if tag.startswith(WANTED_TAG)]
    return event.kind.startswith("job.") and (not wanted or _is_among(event.kind, wanted))


def _is_among(kind: str, wanted: Collection[str]) -> bool:
    return any(kind == one or kind.startswith(f"{one}.") for one in wanted)


def _outcome(event: Event, told: Told | None) -> dict[str, Any]:
    if told is None or event.job is None:
        return {}
    found: dict[str, Any] = {"error": _error(_error_then(event, told)), "result": None, "artifacts": []}
    # The job may have changed since: its current state says nothing about the event.
    if told.state != event.state:
        return found
    found["artifacts"] = _artifacts(told)
    if told.state == JobState.SUCCEEDED and told.result is not None:
        found["result"] = json.loads(told.result)
    elif told.state == JobState.SUCCEEDED and told.result_size:
        found |= {"result_omitted": True, **_referred(told)}
    return found


def _error_then(event: Event, told: Told) -> str | None:
    """Return the error of the run that the event ended, or of an end that no run made."""
    if is_end_of_run(event) and event.epoch in told.errors:
        return told.errors[event.epoch]
    return (
        last_error(told.state, told.reason, told.error) if told.state == event.state and event.kind in _ENDS else None
    )


def _referred(told: Told) -> dict[str, Any]:
    """Return the size of a result that is not sent along, and the path to fetch it."""
    return {"result_bytes": told.result_size, "result_path": f"{_API}/jobs/{quote(told.id, safe='')}/result"}


def _error(text: str | None) -> dict[str, str] | None:
    """Return an error's type and message, without its traceback, which receivers must not see."""
    if text is None:
        return None
    error: Mapping[str, Any] = json.loads(text)
    return {"type": str(error.get("type", "")), "message": str(error.get("message", ""))[:_ERROR_LIMIT]}


def _artifacts(told: Told) -> list[dict[str, Any]]:
    below = f"{_API}/jobs/{quote(told.id, safe='')}/artifacts"
    result = [(COMPLETION, "application/json", told.result_size)] if told.state == JobState.SUCCEEDED else []
    return [
        {"name": name, "content_type": kind, "size": size, "path": f"{below}/{quote(name, safe='')}/content"}
        for name, kind, size in (*result, *told.artifacts[:_ARTIFACTS])
        if size is not None
    ]


def _leave_out(data: dict[str, Any], name: str) -> None:
    if data.get(name):
        data[name] = None
        data[f"{name}_omitted"] = True


_Shelf = tuple[list[Endpoint], dict[str, list[Endpoint]]]
"""Endpoints for any tags, and the others by tag."""


class Audience:
    """Finds the endpoints of each event, those for which `receives` is true."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._called: Final[dict[str, Endpoint]] = {}
        self._of_tenant: Final[defaultdict[str, list[Endpoint]]] = defaultdict(list)
        self._shelves: Final[dict[tuple[str, str], _Shelf]] = {}
        for endpoint in endpoints:
            if endpoint.called:
                self._called[f"{CALLED_TAG}{endpoint.id}"] = endpoint
            else:
                self._of_tenant[endpoint.tenant].append(endpoint)

    def of(self, event: Event) -> list[Endpoint]:
        """Return the endpoints that are notified of an event."""
        if event.task == TASK:
            return []
        found: dict[str, Endpoint] = {}
        for tenant in dict.fromkeys(("", event.tenant)):
            plain, tagged = self._shelf(tenant, event.kind)
            found |= {one.id: one for one in plain}
            found |= {one.id: one for tag in event.tags for one in tagged.get(tag, ())}
        named = (self._called.get(tag) for tag in event.tags)
        found |= {one.id: one for one in named if one is not None and receives(one, event)}
        return list(found.values())

    def _shelf(self, tenant: str, kind: str) -> _Shelf:
        if (shelf := self._shelves.get((tenant, kind))) is None:
            plain: list[Endpoint] = []
            tagged: defaultdict[str, list[Endpoint]] = defaultdict(list)
            for endpoint in self._of_tenant.get(tenant, ()):
                if not takes_kind(endpoint, kind):
                    continue
                if endpoint.tags is None:
                    plain.append(endpoint)
                for tag in endpoint.tags or ():
                    tagged[tag].append(endpoint)
            shelf = self._shelves[tenant, kind] = (plain, tagged)
        return shelf
