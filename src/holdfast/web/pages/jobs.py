"""The list of jobs: search, state filters and paging. All filters are in the URL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...errors import InvalidInput, NotFound
from ...model.answers import LATER
from ...model.jobs import JobRecord, JobState
from ...model.stats import QueueStats
from ...model.values import decoded
from ...names import MAX_INSTANT, MIN_INSTANT, check_name
from ...rules.actions import ACTIONS, HELD
from ...shapes.jobs import error_line
from ..search.finding import Found, find
from ..search.meaning import tags_of, took
from ..search.query import KNOWN, NOTHING, BadSearch, Search, parse, write
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page
from .templates import iso, job_path, mount_of

group = Group("Jobs", kind="page")

SHOWN: Final = 50
_TRAIL: Final = 20
_ID: Final = 26
_PLACE_BYTES: Final = 160
"""An id, and when it ended."""
_READY: Final = ("waiting", "delayed", "retrying", "throttled", "parked")
"""The labels of jobs whose state is "ready"."""

VIEWS: Final = (
    ("Failed in the last hour", "state:failed ended_since:1h"),
    ("Scheduled for later", "label:delayed"),
    ("Waiting to be retried", "label:retrying"),
    ("Running for over a minute", "state:running took:>1m"),
    ("Held by an operator", "state:blocked reason:operator"),
    ("More than 2 attempts", "attempts:>2"),
)


class JobsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The search, and single fields for links from elsewhere, which override the search."""

    q: str = ""
    state: str = ""
    label: str = ""
    queue: str = ""
    task: str = ""
    tenant: str = ""
    tag: str = ""
    reason: str = ""
    flow: str = ""
    worker: str = ""
    affinity: str = ""
    error: str = ""
    from_: int | None = msgspec.field(default=None, name="from")
    to: int | None = None
    before: str = ""
    trail: str = ""


@dataclass(frozen=True, slots=True)
class Chip:
    """A state or label to filter by, with an approximate count."""

    state: str
    name: str
    href: str
    on: bool
    count: int | None
    about: bool


@group.get("/jobs", needs="read")
async def show(call: Call, query: JobsQuery) -> Page | Response:
    """Show the matching jobs, newest first."""
    now = SYSTEM_CLOCK.now()
    try:
        search = search_of(query)
        before = check_name("before", query.before, limit=_PLACE_BYTES) if query.before else None
    except InvalidInput as wrong:
        return Page("jobs.html", _shows(call, NOTHING, Found((), None), now, line=query.q, wrong=str(wrong)), 400)
    if (there := await _named(call, search)) is not None:
        return there
    found = await find(call.client.jobs, search, now, before=before, limit=SHOWN, payload=call.may("payload"))
    queues = await call.app.stats.aqueues() if isinstance(call.client, App) else []
    shows = _shows(call, search, found, now, line=write(search), queues=queues)
    trail = tuple(part for part in query.trail.split(",") if part)[-_TRAIL:]
    return Page("jobs.html", shows | _paging(search, found, query.before, trail))


def search_of(query: JobsQuery) -> Search:
    """Return the search with the fields applied. Raises BadSearch if one is invalid."""
    said = parse(query.q)
    given: dict[str, Any] = {name: value for name in KNOWN if (value := getattr(query, name, ""))}
    if "tag" in given:
        given["tags"] = (given.pop("tag"),)
    span = {name: at for name, at in (("since", query.from_), ("until", query.to)) if at is not None}
    if not all(MIN_INSTANT <= at <= MAX_INSTANT for at in span.values()):
        raise BadSearch("from and to are instants in microseconds since 1970")
    given |= {name: iso(at) for name, at in span.items()}
    # Parsed from its text, so that fields are validated like the search.
    parse(write(NOTHING.but(**given)))
    return said.but(**given)


def address(search: Search, **more: str) -> str:
    """Return the URL of a search."""
    fields = {"q": write(search), **more}
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"/jobs?{query}" if query else "/jobs"


def counts_of(search: Search, queues: Sequence[QueueStats]) -> dict[str, tuple[int, bool]]:
    """Return job counts by state and label, and whether they are estimates. Empty if no index has them."""
    if search.but(state=None, label=None, queue=None) != NOTHING or not queues:
        return {}
    meant = [queue for queue in queues if search.queue in (None, queue.name)]
    counts: dict[str, tuple[int, bool]] = {}
    for name in (*JobState, *LATER):
        labels = _READY if name == JobState.READY else (str(name),)
        n = sum(queue.count(label) for queue in meant for label in labels)
        counts[name] = (n, any(label in queue.estimated for queue in meant for label in labels))
    return counts


def _shows(
    call: Call,
    search: Search,
    found: Found,
    now: int,
    *,
    line: str,
    wrong: str = "",
    queues: Sequence[QueueStats] = (),
) -> dict[str, Any]:
    counts = counts_of(search, queues)
    rows = [row_of(job, now, payload=call.may("payload")) for job in found.jobs]
    total, about = _total(search, counts)
    return {
        "page": "jobs",
        "line": line,
        "wrong": wrong,
        "search": search,
        "rows": rows,
        "chips": _chips(search, counts),
        "filters": _filters(search),
        "looked": found.looked,
        "more": found.more,
        "total": total,
        "about": about,
        "tenants": any(row.tenant for row in rows),
        "queues": [(queue.name, address(search.but(queue=queue.name))) for queue in queues],
        "tasks": [(name, address(search.but(task=name))) for name in sorted(call.app.tasks)],
        "views": [(name, address(parse(text)), text) for name, text in VIEWS],
        "everything": address(NOTHING),
        "older": None,
        "newer": None,
        "newest": None,
        "known": KNOWN,
        "actions": [record for record in ACTIONS.values() if record.in_bulk],
    }


def _chips(search: Search, counts: dict[str, tuple[int, bool]]) -> list[Chip]:
    every = search.but(state=None, label=None)
    chips = [Chip("", "All", address(every), search.state is None and search.label is None, None, False)]
    for state in JobState:
        on = search.state == state
        there = every if on else every.but(state=str(state))
        chips.append(Chip(state, state.capitalize(), address(there), on, *counts.get(state, (None, False))))
        if state is JobState.READY:
            on = search.label == "delayed"
            there = every if on else every.but(label="delayed")
            chips.append(Chip(state, "Scheduled", address(there), on, *counts.get("delayed", (None, False))))
    return chips


def _filters(search: Search) -> list[tuple[str, str, str]]:
    """Return the other active filters, each with the URL without it."""
    found = [
        (name, str(value), address(search.but(**{name: None})))
        for name in KNOWN
        if name not in ("state", "tag") and (value := getattr(search, name)) is not None
    ]
    found += [("tag", tag, address(search.but(tags=_without(search.tags, tag)))) for tag in search.tags]
    return found + [("text", word, address(search.but(words=_without(search.words, word)))) for word in search.words]


def _without(values: tuple[str, ...], one: str) -> tuple[str, ...]:
    return tuple(value for value in values if value != one)


def _total(search: Search, counts: dict[str, tuple[int, bool]]) -> tuple[int | None, bool]:
    if not counts:
        return None, False
    if search.state is not None and search.label is not None:
        return None, False
    if (chosen := search.label or search.state) is not None:
        return counts[chosen]
    found = [counts[state] for state in JobState]
    return sum(n for n, _ in found), any(about for _, about in found)


def _paging(search: Search, found: Found, before: str, trail: tuple[str, ...]) -> dict[str, str | None]:
    """Return the paging links: older continues after the last row, newer goes back page by page."""
    older = None
    if found.more is not None:
        older = address(search, before=found.more, trail=",".join((*trail, before) if before else trail))
    if not before:
        return {"older": older}
    newer = address(search, before=trail[-1], trail=",".join(trail[:-1])) if trail else address(search)
    return {"older": older, "newer": newer, "newest": address(search)}


async def _named(call: Call, search: Search) -> Response | None:
    """Return the id if the search is nothing but a job id, which opens that job."""
    if len(search.words) != 1 or search.but(words=()) != NOTHING or len(search.words[0]) != _ID:
        return None
    try:
        job = await call.client.jobs.aget(search.words[0], whole=False)
    except (NotFound, InvalidInput):
        return None
    return RedirectResponse(mount_of(call.request.scope) + job_path(job.id), 303)


_MOST_SAID: Final = 300
_MOST_GIVEN: Final = 4_096
_PARKED: Final = 2
_WAITS: Final = {
    "dependencies": "waiting for other jobs of its flow",
    HELD: "held by an operator",
    "budget_exhausted": "waiting for its budget",
    "quota": "waiting for its quota",
    "route": "no worker can run it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row about a job. Times and durations are in microseconds."""

    id: str
    task: str
    queue: str
    tenant: str
    state: str
    label: str
    tries: str
    priority: int
    tags: tuple[str, ...]
    given: str
    """The beginning of its arguments; empty where they are withheld."""
    said: str
    """The reason for its state in a few words: its error, or what it is waiting for."""
    is_error: bool
    created_at: int
    at: int
    """The time that matters in its state: due, started or finished."""
    runs_since: int | None
    took: int | None


def row_of(job: JobRecord, now: int, *, payload: bool) -> JobRow:
    """Return the row of a job. Without `payload` its arguments are withheld."""
    error = error_line(job.error)
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        state=str(job.state),
        label=label_of(job, now),
        tries=f"{job.attempts}/{job.max_attempts or '∞'}",
        priority=job.priority,
        tags=tuple(tags_of(job)),
        given=_given(job.payload) if payload else "",
        said=_one_line(error or _reason(job)),
        is_error=error is not None and job.state is JobState.FAILED,
        created_at=job.created_at,
        at=_instant(job, now),
        runs_since=job.claimed_at if job.state is JobState.RUNNING else None,
        took=None if job.state is JobState.RUNNING else took(job, now),
    )


def label_of(job: JobRecord, now: int) -> str:
    """Return the label of its state."""
    if job.state is JobState.READY:
        if job.not_before > now:
            return "Retrying" if job.reason == "retry" else "Delayed"
        return "Parked" if job.due == _PARKED else "Ready"
    if job.state is JobState.BLOCKED and job.reason == HELD:
        return "Held"
    if job.state is JobState.RUNNING and job.cancel_at is not None:
        return "Stopping"
    return str(job.state).capitalize()


def _instant(job: JobRecord, now: int) -> int:
    if job.finished_at is not None:
        return job.finished_at
    if job.state is JobState.RUNNING:
        return job.claimed_at or job.created_at
    return job.not_before if job.not_before > now else job.created_at


def _reason(job: JobRecord) -> str:
    if job.state is JobState.BLOCKED:
        return _WAITS.get(job.reason or "", job.reason or "")
    if job.state in (JobState.SUSPENDED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED):
        return job.reason or ""
    return ""


def _given(payload: str) -> str:
    """Summarise arguments: `user: 8231, locale: "de"`."""
    found = decoded(payload[:_MOST_GIVEN]) if len(payload) <= _MOST_GIVEN else payload[:_MOST_SAID]
    if not isinstance(found, dict):
        return _one_line(str(found))
    return _one_line(", ".join(f"{name}: {_word(value)}" for name, value in found.items()))


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_SAID]
