"""The page of one job: status, history, arguments, result and actions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from ...clock import SYSTEM_CLOCK
from ...errors import HoldfastError
from ...model.actions import Action
from ...model.audit import AuditRecord
from ...model.jobs import Attempt, JobRecord, JobState
from ...model.steps import StepInfo
from ...model.streams import Frame
from ...model.values import decoded, in_brief, is_reference, micros_of
from ...rules.actions import ACTIONS, HELD, Confirm, JobAction, JobFacts, Parameter
from ...rules.explain import Explanation
from ...shapes.jobs import error_line, error_of
from ..search.meaning import fingerprint_of, tags_of, took
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page
from .jobs import label_of
from .templates import error_path, job_path

group = Group("Job", kind="page")

Tab: TypeAlias = Literal["overview", "attempts", "steps", "stream", "artifacts", "signals", "again"]

_MOST_AUDIT: Final = 30


class JobQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tab; `after` is the position in a stream."""

    tab: Tab = "overview"
    after: str = ""


@group.get("/jobs/{job_id}", needs="read", shows_payload=True)
async def show(call: Call, job_id: str, query: JobQuery) -> Page:
    """Show a job."""
    return Page("job.html", await shows(call, job_id, query))


async def shows(call: Call, job_id: str, query: JobQuery, **more: Any) -> dict[str, Any]:
    """Return the context of the page: the job, and the data of its tab."""
    jobs = call.client.jobs
    job, attempts, progress = await asyncio.gather(
        jobs.aget(job_id, whole=False), jobs.aattempts(job_id), call.client.streams.aprogress(job_id)
    )
    now, path, may = SYSTEM_CLOCK.now(), job_path(job.id), call.may("payload")
    tab = await TABS[query.tab](call, job, query.after) if query.tab in TABS else await _overview(call, job)
    if "audit" in tab:
        tab["timeline"] = timeline_of(job, attempts, tab.pop("audit"), now)
    return {
        "page": "jobs",
        "job": job,
        "path": path,
        "tab": query.tab,
        "tabs": _tabs(call, job, path, len(attempts)),
        "label": label_of(job, now),
        "acts": acts_of(job),
        "ended": job.state.is_terminal,
        "progress": progress,
        "took": took(job, now),
        "waited": _waited(job),
        "tags": tags_of(job),
        "attempts": [
            (one, outcome_of(one), tone_of(one), error_of(one.error, payload=may)) for one in reversed(attempts)
        ],
        "error": error_of(job.error, payload=may) if job.state is not JobState.RUNNING else None,
        "error_path": _kind(job),
        **tab,
        **more,
    }


async def _overview(call: Call, job: JobRecord) -> dict[str, Any]:
    payload = call.may("payload")
    why, audit, demands = await asyncio.gather(
        _why(call, job),
        call.client.audit.alist(target_kind="job", target=job.id, limit=_MOST_AUDIT),
        call.client.jobs.ademands(job.id),
    )
    return {
        "why": [(reason.code, _sentence(reason.text)) for reason in why.reasons] if why else [],
        "audit": audit,
        "arguments": decoded(job.payload) if payload else None,
        "result": decoded(job.result) if payload else None,
        "large": _large(job),
        "retry": decoded(job.retry),
        "demands": demands,
    }


def _large(job: JobRecord) -> dict[str, str | None]:
    """Return the URLs of values that are too large for the page."""
    below = f"/api/v1/jobs/{quote(job.id, safe='')}"
    return {
        "arguments": below if is_reference(job.payload) else None,
        "result": f"{below}/artifacts/completion/content" if is_reference(job.result) else None,
    }


async def _why(call: Call, job: JobRecord) -> Explanation | None:
    """Explain the job's state where there is something to explain."""
    return None if job.state.is_terminal else await call.client.jobs.aexplain(job.id)


def _tabs(call: Call, job: JobRecord, path: str, attempts: int) -> list[tuple[Any, ...]]:
    labels = [("overview", "Overview"), ("attempts", "Attempts"), ("steps", "Steps"), ("stream", "Stream"),
              ("artifacts", "Artifacts"), ("signals", "Signals")]  # fmt: skip
    if call.may("enqueue"):
        labels.append(("again", "Edit and run again"))
    return [
        (
            key,
            label,
            path if key == "overview" else f"{path}?tab={key}",
            attempts or None if key == "attempts" else None,
        )
        for key, label in labels
    ]


def _waited(job: JobRecord) -> int | None:
    """Return the time from first due to first started."""
    return None if job.started_at is None else max(0, job.started_at - max(job.created_at, _first_due(job)))


def _first_due(job: JobRecord) -> int:
    # A retry moves the due time past the first start; then only the enqueue time is known.
    due = job.not_before
    return due if job.started_at is not None and due <= job.started_at else job.created_at


def _kind(job: JobRecord) -> str | None:
    found = fingerprint_of(job) if job.error is not None else None
    return None if found is None else error_path(found)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


_ENDED: Final = {
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
    JobState.EXPIRED: "Expired: its deadline passed",
    JobState.SKIPPED: "Skipped: its dependencies can no longer be met",
}
_OUTCOMES: Final = {
    "permanent": "failed (not retryable)",
    "exhausted": "failed (last attempt)",
    "timeout": "timed out",
    "lost": "was lost (worker died)",
    "throttled": "was throttled",
    "cancelled": "was cancelled",
    "released": "released (worker shut down)",
}
_DONE_BY: Final = {f"job.{record.verb}": (record.state, record.past) for record in ACTIONS.values()} | {
    "job.resume": ("running", "Resumed"),
    "job.answer": ("running", "Answered"),
    "job.fork": ("ready", "Forked"),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that makes sense for a job now, as a button, an item of the menu, or a form in it."""

    label: str
    slug: str
    symbol: str
    tone: str = ""
    confirm: Confirm | None = None
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: tuple[tuple[Parameter, object], ...] = ()
    """The fields of a form, each with its current value."""


@dataclass(frozen=True, slots=True)
class Acts:
    """The actions available on a job in its current state."""

    buttons: list[Offer]
    menu: list[Offer]
    resume: bool = False


def acts_of(job: JobRecord) -> Acts:
    """Return the actions that make sense now. The state may change before one is performed; the page then says so."""
    look = JobFacts(
        job.id, job.state, job.queue, 0, job.due, job.reason, job.generation, None, False,
        priority=job.priority, owner=job.owner, epoch=job.epoch, not_before=job.not_before,
    )  # fmt: skip
    buttons: list[Offer] = []
    menu: list[Offer] = []
    for record in ACTIONS.values():
        if record.place != "nowhere" and record.offered(look):
            offer = _offer(record, job)
            (menu if record.place == "menu" or offer.inputs else buttons).append(offer)
            menu += [_variant(record, one) for one in record.parameters if one.item and one.only in (None, job.state)]
    return Acts(buttons, menu, resume=job.state is JobState.SUSPENDED)


def _offer(record: JobAction, job: JobRecord) -> Offer:
    asked = [one for one in record.parameters if one.required or one.name in record.one_of]
    again = record.verb is Action.RETRY and job.state is JobState.SUCCEEDED
    return Offer(
        "Run again" if again else record.label,
        record.slug,
        record.symbol,
        "danger" if record.confirm and record.confirm.danger else "main" if record.place == "main" else "",
        record.confirm,
        inputs=tuple((one, getattr(job, one.name, "")) for one in asked),
    )


def _variant(record: JobAction, one: Parameter) -> Offer:
    """Return an action with one of its flags."""
    tone = "danger" if one.confirm and one.confirm.danger else ""
    return Offer(one.item, record.slug, record.symbol, tone, one.confirm, {one.name: "yes"})


def timeline_of(
    job: JobRecord, attempts: Sequence[Attempt], audit: Sequence[AuditRecord], now: int
) -> list[dict[str, Any]]:
    """Return the past events, oldest first, and the expected ones."""
    items = [{"state": "ready", "what": "Enqueued", "at": job.created_at}]
    items += [_attempt(one) for one in attempts]
    items += [_record(one) for one in audit]
    if job.started_at is not None:
        items.append(_item("running", "First started", job.started_at))
    if job.cancel_at is not None:
        items.append(_item("cancelled", "Asked to stop", job.cancel_at, note=job.cancel_reason))
    if job.state is JobState.RUNNING and job.claimed_at not in (None, job.started_at):
        assert job.claimed_at is not None
        items.append(_item("running", f"Attempt {job.attempts} started", job.claimed_at, note=f"worker {job.owner}"))
    if job.finished_at is not None:
        note = None if job.state in (JobState.SUCCEEDED, JobState.FAILED) else job.reason
        items.append(_item(str(job.state), _ENDED[job.state], job.finished_at, length=_length(job, now), note=note))
    return sorted(items, key=_when) + _waits(job) + _to_come(job, now)


def _waits(job: JobRecord) -> list[dict[str, Any]]:
    """Return what the job is waiting for now, other than time."""
    if job.state is JobState.SUSPENDED:
        return [{"state": "suspended", "what": "Waiting for an answer" if job.reason == "signal" else "Waiting"}]
    if job.state is JobState.BLOCKED:
        return [{"state": "blocked", "what": "Held" if job.reason == HELD else "Waiting on limits or dependencies"}]
    return []


def _length(job: JobRecord, now: int) -> int | None:
    # The failed run comes before it, with its own entry.
    return took(job, now) if job.state is JobState.SUCCEEDED else None


def _to_come(job: JobRecord, now: int) -> list[dict[str, Any]]:
    if job.finished_at is not None:
        return []
    items = []
    if job.state is JobState.READY and job.not_before > now:
        what = "Next attempt" if job.reason == "retry" else "Due"
        items.append(_item("running", what, job.not_before, future=True))
    if job.deadline is not None:
        items.append(_item("expired", "Deadline", job.deadline, future=True))
    return items


def _attempt(one: Attempt) -> dict[str, Any]:
    length = None if one.started_at is None else max(0, one.ended_at - one.started_at)
    what = f"Attempt {one.attempt} {outcome_of(one)}"
    return _item(tone_of(one), what, one.ended_at, length=length, note=_short(error_line(one.error)))


def outcome_of(one: Attempt) -> str:
    """Describe the outcome of a run."""
    return _OUTCOMES.get(one.outcome, one.outcome.replace("_", " "))


def tone_of(one: Attempt) -> str:
    """Return the state whose colour an unsuccessful run is shown in."""
    return {"throttled": "blocked", "cancelled": "cancelled", "released": "ready"}.get(one.outcome, "failed")


def _record(one: AuditRecord) -> dict[str, Any]:
    state, what = _DONE_BY.get(one.action, ("ready", one.action))
    return _item(state, f"{what} by {one.actor}", micros_of(one.at), note=one.reason or None)


def _item(state: str, what: str, at: int, **more: Any) -> dict[str, Any]:
    return {"state": state, "what": what, "at": at, **more}


def _when(item: dict[str, Any]) -> int:
    at: int = item["at"]
    return at


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= 300 else f"{text[:300]}…"


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
    at: datetime


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
    asked = [(one, _kind_of(one.schema), one.schema and msgspec.json.encode(one.schema).decode()) for one in pending]
    return {"waitpoints": asked, "received": received}


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


_BRIEF: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBar:
    """A step and its position between the first and the last; `left` and `width` are percentages."""

    step: StepInfo
    label: str
    length: int
    left: float
    width: float
    value: Any
    brief: str
    """The beginning of the value."""
    error: Any


def bars_of(steps: Sequence[StepInfo], *, payload: bool) -> list[StepBar]:
    """Return the steps with their positions. Without `payload` their values are withheld."""
    times = [(micros_of(step.started_at), micros_of(step.ended_at)) for step in steps]
    first = min((start for start, end in times if start and end), default=0)
    span = max(max((end for start, end in times if start), default=0) - first, 1)
    return [_bar(step, *time, first, span, payload=payload) for step, time in zip(steps, times, strict=True)]


def _bar(step: StepInfo, start: int, end: int, first: int, span: int, *, payload: bool) -> StepBar:
    length = max(0, end - start)
    left = min(max(0.0, (start - first) * 100 / span), 99.5)
    return StepBar(
        step=step,
        label=step.key.partition(":")[2] or step.name,
        length=length,
        left=left,
        width=min(max(length * 100 / span, 0.5), 100 - left),
        value=step.value if payload else None,
        brief=_brief(step.value) if payload else "",
        error=step.error if payload else None,
    )


def _brief(value: Any) -> str:
    return " ".join(msgspec.json.encode(value).decode()[:_BRIEF].split())
