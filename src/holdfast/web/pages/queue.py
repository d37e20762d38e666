"""The page of one queue: activity, jobs, workers, limits and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import msgspec

from ...clock import SYSTEM_CLOCK
from ...errors import ConfigError, InvalidInput
from ...model.answers import LATER
from ...model.limits import queue_lane
from ...model.queues import QueueSettings
from ...model.stats import LimitStats, QueueStats, WorkerStats
from ...rules.retry import RetryPolicy
from ..wire.call import Call
from ..wire.operation import Group
from .activity import WINDOWS, Timeline, charts_of, load_chart, timeline_of
from .forms import ActForm, Word, number_of, span_of, words_of
from .frame import Done, Page
from .queues import row_of, unfinished
from .templates import queue_path

group = Group("Queue", kind="page")

DURATIONS: Final = (
    ("timeout", "Run timeout", "no timeout"),
    ("keep_succeeded", "Keep succeeded jobs", "default"),
    ("keep_failed", "Keep failed jobs", "default"),
    ("keep_cancelled", "Keep cancelled jobs", "default"),
    ("keep_expired", "Keep expired jobs", "default"),
    ("keep_skipped", "Keep skipped jobs", "default"),
    ("keep_result", "Keep results", "as long as the job"),
)
"""Settings that are durations: name, label and default."""
_STATES: Final = {
    "waiting": "ready", "delayed": "ready", "retrying": "ready", "throttled": "ready", "parked": "ready",
}  # fmt: skip
"""Texts for labels that are not states."""
_ORDER: Final = (
    "ready", "running", "blocked", "suspended", "succeeded", "failed", "cancelled", "expired", "skipped",
)  # fmt: skip


class QueueQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The time window."""

    window: Literal["15m", "1h", "4h"] = "1h"


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of jobs in a state, with a link to the list."""

    state: str
    count: int
    about: bool
    path: str
    parts: list[tuple[str, int, str]]
    """Reasons for which ready jobs wait, with links to the lists."""


@group.get("/queues/{queue}", needs="read")
async def show(call: Call, queue: str, query: QueueQuery) -> Page:
    """Show a queue. An unknown name shows an empty queue: queues exist by being used."""
    return Page("queue.html", await shows(call, queue, query.window))


async def shows(call: Call, queue: str, window: str = "1h", **more: Any) -> dict[str, Any]:
    """Return the context of the page."""
    now = SYSTEM_CLOCK.now()
    if call.identity.tenant:
        stats = await call.app.scoped(call.identity.tenant).queues.aget(queue)
        return {**_common(stats, now, window), "whole": False, "row": row_of(stats, now, None), **more}
    app = call.app
    stats, settings, workers, limits, timeline = await asyncio.gather(
        app.stats.aqueue(queue),
        app.queues.aget(queue),
        app.stats.aworkers(),
        app.stats.alimits(),
        timeline_of(app, window),
    )
    whole = _whole(stats, settings, workers, limits, timeline, now)
    return {**_common(stats, now, window), **whole, "asked": fields_of(settings), "wrong": "", **more}


def _common(stats: QueueStats, now: int, window: str) -> dict[str, Any]:
    return {
        "page": "queues",
        "queue": stats,
        "states": states_of(stats),
        "window": window,
        "windows": list(WINDOWS),
        "back": "",
    }


def _whole(
    stats: QueueStats,
    settings: QueueSettings,
    workers: Sequence[WorkerStats],
    limits: Sequence[LimitStats],
    timeline: Timeline,
    now: int,
) -> dict[str, Any]:
    did = timeline.of(stats.name)
    return {
        "whole": True,
        "row": row_of(stats, now, did),
        "did": did,
        "charts": charts_of(did),
        "load": load_chart(did, unfinished([stats])),
        "serving": [worker for worker in workers if worker.is_live and stats.name in worker.queues],
        "lanes": lanes_of(stats.name, limits),
        "settings": settings,
        "durations": DURATIONS,
    }


def states_of(stats: QueueStats) -> list[StateCount]:
    """Return its jobs by state, in the order of a job's life; states without jobs are left out."""
    found: dict[str, list[tuple[str, int]]] = {}
    for label, count in stats.counts.items():
        if count:
            found.setdefault(_STATES.get(label, label), []).append((label, count))
    own = f"queue={quote(stats.name, safe='')}"
    return [
        StateCount(
            state,
            sum(count for _, count in parts),
            any(label in stats.estimated for label, _ in parts),
            f"/jobs?state={state}&{own}",
            [(label, count, f"/jobs?label={label}&{own}" if label in LATER else "") for label, count in parts]
            if state == "ready"
            else [],
        )
        for state in _ORDER
        if (parts := found.get(state))
    ]


def lanes_of(queue: str, limits: Sequence[LimitStats]) -> list[LimitStats]:
    """Return the limits of this queue: its concurrency and the shares of its keys."""
    begins = f"fair:{queue.replace('%', '%25').replace(':', '%3a')}:"
    own = [one for one in limits if one.kind == "concurrency"]
    return [one for one in own if one.key == queue_lane(queue) or one.key.startswith(begins)][:20]


def fields_of(settings: QueueSettings) -> dict[str, str]:
    """Return the settings as text for the form."""
    spans = {name: _span(getattr(settings, name)) for name, _, _ in DURATIONS}
    cap = "" if settings.cap is None else str(settings.cap)
    # The form shows what differs from the default.
    events = "" if settings.events == "outcomes" else settings.events
    retry = "" if settings.retry is None else msgspec.json.encode(settings.retry).decode()
    return {**spans, "cap": cap, "events": events, "retry": retry, "reason": ""}


def _span(seconds: float | None) -> str:
    """Format a duration such as 7d, or in seconds."""
    if seconds is None:
        return ""
    if not seconds or not float(seconds).is_integer():
        return f"{seconds:g}"
    unit, size = next((u, s) for u, s in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)) if seconds % s == 0)
    return f"{seconds // size:g}{unit}"


class SettingsForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings as text; empty fields reset to the default."""

    timeout: Word = ""
    keep_succeeded: Word = ""
    keep_failed: Word = ""
    keep_cancelled: Word = ""
    keep_expired: Word = ""
    keep_skipped: Word = ""
    keep_result: Word = ""
    cap: Word = ""
    events: Literal["", "off", "outcomes", "all"] = ""
    retry: Annotated[str, msgspec.Meta(max_length=4_000)] = ""


class AtOnceForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A concurrency limit; empty means unlimited."""

    kind: Literal["most", "total"]
    n: Word = ""


@group.post("/queues/{queue}/settings", needs="operate")
async def set_settings(call: Call, queue: str, form: SettingsForm) -> Done | Page:
    """Change the queue's settings."""
    queues = call.whole("a queue's settings").queues
    try:
        changes = changes_of(form)
        before = await queues.aget(queue)
        after = await queues.aset(queue, actor=call.actor, reason=form.reason, **changes)
    except (InvalidInput, ConfigError) as wrong:
        asked = {name: str(value) for name, value in msgspec.structs.asdict(form).items()}
        return Page("queue.html", await shows(call, queue, asked=asked, wrong=words_of(wrong)), 422)
    if before == after:
        return Done(queue_path(queue), "Already set; nothing changed.", ok=False)
    names = [name.replace("_", " ") for name in changes if getattr(before, name) != getattr(after, name)]
    return Done(queue_path(queue), f"Set for {queue}: {', '.join(names)}.")


@group.post("/queues/{queue}/at-once", needs="operate")
async def set_at_once(call: Call, queue: str, form: AtOnceForm) -> Done | Page:
    """Set the queue's concurrency limit."""
    limits = call.whole("a queue's limits").limits
    who = {"actor": call.actor, "reason": form.reason}
    try:
        n = number_of("the concurrency", form.n)
        if form.kind == "total":
            await limits.aset_total(queue, n, **who)
            return Done(
                queue_path(queue), "Total removed." if n is None else f"Concurrency of {n}, split across workers."
            )
        if n is None:
            removed = await limits.aclear_concurrency(queue=queue, **who)
            say = "Limit removed." if removed else "There was no limit; nothing changed."
            return Done(queue_path(queue), say, ok=removed)
        await limits.aset_concurrency(n, queue=queue, **who)
    except InvalidInput as wrong:
        return Done(queue_path(queue), words_of(wrong), ok=False)
    return Done(queue_path(queue), f"Concurrency set to {n}.")


def changes_of(form: SettingsForm) -> dict[str, Any]:
    """Return the settings as the client takes them. InvalidInput names the field that cannot be parsed."""
    spans = {name: span_of(label.lower(), getattr(form, name)) for name, label, _ in DURATIONS}
    cap = number_of("the number of finished jobs to keep", form.cap)
    return {**spans, "cap": cap, "events": form.events or None, "retry": policy_of(form.retry)}


def policy_of(text: str) -> RetryPolicy | None:
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=RetryPolicy)
    except msgspec.DecodeError as wrong:
        raise InvalidInput(f"invalid retry policy: {wrong}") from wrong
