"""The list of queues, and the actions that pause, resume, drain and disable them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from ...client.queues import Queues
from ...clock import SECOND, SYSTEM_CLOCK
from ...model.answers import LATER
from ...model.queues import QueueSettings
from ...model.stats import QueueStats
from ...model.webhooks import QUEUE as WEBHOOKS
from ..wire.call import Call
from ..wire.operation import Group
from .activity import Activity, Timeline, timeline_of
from .forms import ActForm, ask
from .frame import Done, Page
from .templates import queue_path

group = Group("Queues", kind="page")

Sort = Literal["name", "waiting", "oldest", "running", "failed"]

_COLUMNS: Final[tuple[tuple[Sort, str, bool], ...]] = (
    ("name", "Queue", False),
    ("waiting", "Waiting", True),
    ("oldest", "Oldest due", True),
    ("running", "Running", False),
    ("failed", "Failed", True),
)
_KEYS: Final[dict[Sort, Callable[[QueueRow], Any]]] = {
    "name": lambda row: row.name,
    "waiting": lambda row: (-row.waiting, row.name),
    "oldest": lambda row: (row.due_at is None, row.due_at or 0, row.name),
    "running": lambda row: (-row.running, row.name),
    "failed": lambda row: (-row.failed, row.name),
}


class QueuesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters and sort order."""

    q: str = ""
    state: Literal["", "active", "paused", "draining", "disabled", "unserved"] = ""
    sort: Sort = "name"


class SwitchForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Changes a queue's state, and names the page to return to."""

    back: Literal["", "queues"] = ""


@group.get("/queues", needs="read")
async def show(call: Call, query: QueuesQuery) -> Page:
    """Show every queue that has jobs, settings or a worker."""
    now = SYSTEM_CLOCK.now()
    if call.identity.tenant:
        rows = rows_of(await call.app.scoped(call.identity.tenant).queues.astats(), now, None)
    else:
        queues, timeline = await asyncio.gather(call.app.stats.aqueues(), timeline_of(call.app, "1h"))
        rows = rows_of(queues, now, timeline)
    return Page("queues.html", {**shows(rows, query), "whole": not call.identity.tenant})


def shows(rows: Sequence[QueueRow], query: QueuesQuery) -> dict[str, Any]:
    """Return the selected rows, and the links for filters and sorting."""
    found = [row for row in rows if query.q.lower() in row.name.lower() and _is_in(row, query.state)]
    states = ("active", "paused", "draining", "disabled", "unserved")
    counts = {state: sum(_is_in(row, state) for row in rows) for state in states}
    return {
        "page": "queues",
        "rows": sorted(found, key=_KEYS[query.sort]),
        "total": len(rows),
        "query": query,
        "sorts": [
            (key, label, _address(query, sort=key), _arrow(key) if key == query.sort else None, num)
            for key, label, num in _COLUMNS
        ],
        "chips": [("", "All", len(rows), _address(query, state=""))]
        + [(state, state.capitalize(), n, _address(query, state=state)) for state, n in counts.items() if n],
        "window": "1h",
        "acting": True,
        "back": "queues",
    }


def _arrow(key: Sort) -> str:
    return "up" if key == "name" else "down"


def _is_in(row: QueueRow, state: str) -> bool:
    return row.is_unserved if state == "unserved" else state in ("", row.state)


def _address(query: QueuesQuery, **but: str) -> str:
    given = {**msgspec.structs.asdict(query), **but}
    text = urlencode({name: value for name, value in given.items() if value and value != "name"})
    return f"/queues?{text}" if text else "/queues"


@group.post("/queues/{queue}/pause", needs="operate")
async def pause(call: Call, queue: str, form: SwitchForm) -> Done | Page:
    """Accept jobs but start none."""
    say = f"{queue} is paused: new jobs are accepted but not started. Resume to undo."
    return await _switch(call, queue, form, "paused", say, lambda queues, **who: queues.apause(queue, **who))


@group.post("/queues/{queue}/resume", needs="operate")
async def resume(call: Call, queue: str, form: SwitchForm) -> Done | Page:
    """Accept and start jobs again."""
    say = f"{queue} accepts and starts jobs again."
    return await _switch(call, queue, form, "active", say, lambda queues, **who: queues.aresume(queue, **who))


@group.post("/queues/{queue}/drain", needs="operate")
async def drain(call: Call, queue: str, form: SwitchForm) -> Done | Page:
    """Start the jobs it has, and reject new ones."""
    if not form.confirmed:
        text = "Jobs already in the queue run; new jobs are rejected with an error."
        return ask(call, form, title=f"Drain {queue}?", text=text, go="Drain", back=_back(queue, form), page="queues")
    say = f"{queue} is draining: its jobs run, and new jobs are rejected. Resume to undo."
    return await _switch(call, queue, form, "draining", say, lambda queues, **who: queues.adrain(queue, **who))


@group.post("/queues/{queue}/disable", needs="operate")
async def disable(call: Call, queue: str, form: SwitchForm) -> Done | Page:
    """Start no jobs, and reject new ones."""
    if not form.confirmed:
        text, title = "No jobs start, and new jobs are rejected with an error.", f"Disable {queue}?"
        where = {"back": _back(queue, form), "page": "queues"}
        return ask(call, form, title=title, text=text, go="Disable", danger=True, **where)
    say = f"{queue} is disabled: no jobs start, and new jobs are rejected. Resume to undo."
    return await _switch(call, queue, form, "disabled", say, lambda queues, **who: queues.adisable(queue, **who))


async def _switch(call: Call, queue: str, form: SwitchForm, state: str, say: str, act: Callable[..., Any]) -> Done:
    queues: Queues = call.whole("a queue's state").queues
    before: QueueSettings = await queues.aget(queue)
    if before.state == state:
        return Done(_back(queue, form), f"{queue} is already {state}; nothing changed.", ok=False)
    await act(queues, actor=call.actor, reason=form.reason)
    return Done(_back(queue, form), say)


def _back(queue: str, form: SwitchForm) -> str:
    return "/queues" if form.back == "queues" else queue_path(queue)


BARS: Final = 30
TONES: Final = {"active": "good", "paused": "warn", "draining": "info", "disabled": "bad"}
LIVE: Final = ("waiting", "delayed", "retrying", "throttled", "parked", "running", "suspended", "blocked")
_HELD: Final = ("parked", "suspended", "blocked")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue in a list."""

    name: str
    path: str
    state: str
    tone: str
    is_unserved: bool
    """True if jobs are due and no live worker serves the queue."""
    is_cooling: bool
    waiting: int
    later: int
    held: int
    running: int
    failed: int
    about: frozenset[str]
    """The counts that are estimates."""
    slots: int
    workers: int
    capacity: int | None
    due_at: int | None
    """The time since when its oldest job could have started."""
    bars: list[int]
    """Finished runs, in equal parts of the window."""
    rate: float
    """Finished runs per minute, over the last few minutes."""
    failing: float | None


def rows_of(queues: Iterable[QueueStats], now: int, timeline: Timeline | None) -> list[QueueRow]:
    """Return the user's queues, and the built-in webhook queue if it was ever used; every worker serves that one."""
    shown = [queue for queue in queues if queue.name != WEBHOOKS or any(queue.counts.values())]
    return [row_of(queue, now, None if timeline is None else timeline.of(queue.name)) for queue in shown]


def row_of(queue: QueueStats, now: int, did: Activity | None) -> QueueRow:
    is_due = queue.oldest_due_age is not None
    return QueueRow(
        name=queue.name,
        path=queue_path(queue.name),
        state=queue.state,
        tone=TONES.get(queue.state, "plain"),
        is_unserved=is_due and not queue.workers and not queue.is_paused and did is not None,
        is_cooling=queue.cooling > 0 and queue.state == "active",
        waiting=queue.count("waiting"),
        later=sum(queue.count(label) for label in LATER),
        held=sum(queue.count(label) for label in _HELD),
        running=queue.running,
        failed=queue.count("failed"),
        about=_about(queue),
        slots=queue.slots,
        workers=queue.workers,
        capacity=queue.capacity,
        due_at=due_at(queue, now),
        bars=[] if did is None else grouped(did.count("succeeded", "failed", "retried"), BARS),
        rate=0.0 if did is None else did.last("succeeded", "failed"),
        failing=None if did is None else did.failing(),
    )


def due_at(queue: QueueStats, now: int) -> int | None:
    """Return the due time of the oldest job, rounded to the second, so that a live page does not differ by its age
    alone.
    """
    if queue.oldest_due_age is None:
        return None
    return round((now - queue.oldest_due_age * SECOND) / SECOND) * SECOND


def unfinished(queues: Iterable[QueueStats]) -> int:
    """Return the number of unfinished jobs."""
    return sum(queue.count(label) for queue in queues for label in LIVE)


def grouped(values: Sequence[int], parts: int) -> list[int]:
    """Return the values in fewer, equal parts."""
    size = max(1, -(-len(values) // parts))
    return [sum(values[i : i + size]) for i in range(0, len(values), size)]


def _about(queue: QueueStats) -> frozenset[str]:
    found = {"waiting", "running", "failed"}.intersection(queue.estimated)
    found |= {"later"} if set(LATER).intersection(queue.estimated) else set[str]()
    return frozenset(found | ({"held"} if set(_HELD).intersection(queue.estimated) else set[str]()))
