"""The list of queues, and the actions that pause, resume, drain and disable them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from ...client.queues import Queues
from ...clock import SYSTEM_CLOCK
from ...model.queues import QueueSettings
from ..wire.call import Call
from ..wire.operation import Group
from .activity import timeline_of
from .addresses import queue_path
from .asking import ActForm, ask
from .frame import Done, Page
from .queuerows import QueueRow, rows_of

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
        rows = rows_of(await call.app.scoped(call.identity.tenant).queues.alist(), now, None)
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
