"""The data of each tab of a job's page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from ...errors import HoldfastError
from ...model.jobs import JobRecord
from ...model.streams import Frame
from ...model.values import in_brief, is_reference
from ...shapes.values import decoded
from ..wire.call import Call
from .stepbars import bars_of

Gather: TypeAlias = Callable[[Call, JobRecord, str], Awaitable[dict[str, Any]]]

FRAMES: Final = 500
_RECEIVED: Final = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """A stream frame as text."""

    kind: str
    text: str
    control: bool
    step: str | None
    at: int


async def attempts(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    return {}


async def steps(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    found = await call.client.jobs.asteps(job.id, whole=False)
    return {"steps": bars_of(found, payload=call.may("payload"))}


async def stream(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    if not call.may("payload"):
        return {"pieces": [], "cursor": "", "closed": True, "more": False}
    try:
        page = await call.client.streams.aread(job.id, after=after or None, limit=FRAMES)
    except HoldfastError as gone:
        # Some frames have been deleted; read again from the start.
        page = await call.client.streams.aread(job.id, limit=FRAMES, best_effort=False)
        return _streamed([_piece(frame) for frame in page.frames], page.cursor, page.closed) | {"gone": str(gone)}
    return _streamed([_piece(frame) for frame in page.frames], page.cursor, page.closed)


async def artifacts(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    found = await call.client.artifacts.alist(job.id)
    below = f"/api/v1/jobs/{quote(job.id, safe='')}/artifacts"
    return {"artifacts": [(one, f"{below}/{quote(one.name, safe='')}/content") for one in found]}


async def signals(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    pending, received = await asyncio.gather(
        call.client.signals.apending(job.id), call.client.signals.areceived(job.id, limit=_RECEIVED)
    )
    return {"waitpoints": [(one, _kind_of(decoded(one.schema)), one.schema) for one in pending], "received": received}


async def again(call: Call, job: JobRecord, after: str) -> dict[str, Any]:
    task = call.app.tasks.get(job.task)
    return {
        "known": task is not None or call.settings.any_task,
        "takes": str(task.signature) if task is not None else "",
        "given": _pretty(job.payload) if call.may("payload") and not is_reference(job.payload) else "{}",
        "asked": {"queue": job.queue, "priority": job.priority, "delay": ""},
        "wrong": f"The arguments are left out: {in_brief(job.payload)}." if is_reference(job.payload) else "",
    }


TABS: Final[dict[str, Gather]] = {
    "attempts": attempts,
    "steps": steps,
    "stream": stream,
    "artifacts": artifacts,
    "signals": signals,
    "again": again,
}


def _streamed(pieces: list[Piece], cursor: str, closed: bool) -> dict[str, Any]:
    return {"pieces": pieces, "cursor": cursor, "closed": closed, "more": len(pieces) == FRAMES}


def _piece(frame: Frame) -> Piece:
    return Piece(frame.kind, text_of(frame), frame.control, frame.step, frame.at)


def text_of(frame: Frame) -> str:
    """Return the text of a frame."""
    if frame.control:
        return (
            "a new attempt started; the output above is superseded"
            if frame.kind == "superseded"
            else "some output was lost"
        )
    if isinstance(frame.data, bytes):
        return f"[{len(frame.data):,} bytes]"
    if isinstance(frame.data, str):
        return frame.data
    return json.dumps(frame.data, ensure_ascii=False) + "\n"


def _pretty(text: str) -> str:
    value = decoded(text)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _kind_of(schema: Any) -> str:
    """Return the form for an answer: yes or no, text, number or JSON."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if kind in ("boolean", "string", "integer", "number") else "json"
