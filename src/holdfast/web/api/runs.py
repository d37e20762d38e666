"""Operations within a run of a remote worker: output, spending, artifacts, steps and waits, by its handle."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from ...errors import InvalidInput
from ...model.artifacts import Artifact
from ...model.remote import MOST_FRAMES, FrameDraft, Waited
from ...model.signals import MAX_SIGNALS, MAX_WAITPOINTS, Distinct, OnTimeout, Opened
from ...model.steps import StepInfo
from ..wire.call import Call
from .paging import Page, whole
from .types import Name, Seconds
from .work import Handle, group, leases_of

_DAY: Final = 86_400.0
_Batch: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]
_Base64: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
_Several: TypeAlias = Annotated[list[Name], msgspec.Meta(max_length=MAX_WAITPOINTS)]
_Amounts: TypeAlias = Annotated[dict[Name, int | float], msgspec.Meta(min_length=1, max_length=64)]


class OfRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run."""

    handle: Handle


class NewFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Text or JSON as `data`, or bytes as `base64`; at most 64 KiB."""

    data: Any = msgspec.UNSET
    base64: _Base64 | None = None
    kind: Name = "output"
    best_effort: bool = False
    source: Name | None = None
    correlation_id: Name | None = None


class Emitting(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Frames. Batches numbered from 1 can be sent again safely: number all of them, or none."""

    frames: Annotated[list[NewFrame], msgspec.Meta(max_length=MOST_FRAMES)]
    batch: _Batch | None = None


class Progressing(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The job's progress; fields left out are unchanged."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    message: str | None = None
    stage: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    batch: _Batch | None = None


class Summarizing(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A merge patch (RFC 7396)."""

    patch: dict[str, Any]


class Spending(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Amounts by dimension, charged once for each key of the job."""

    budget: Name
    amounts: _Amounts
    key: Name


class Settling(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The amounts used of the job's reservation."""

    budget: Name
    amounts: _Amounts


class NewArtifact(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named file, as `text` or `base64`."""

    name: Name
    text: str | None = None
    base64: _Base64 | None = None
    content_type: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None


class NewStep(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of a step."""

    name: Name
    value: Any = None


class NewWaitpoint(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A waitpoint that expires after some seconds. `schema` describes the payload, without $ref and pattern."""

    name: Name
    expires: Seconds = _DAY
    schema: dict[str, Any] | None = None
    once: bool = True


class Suspending(OfRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Wait for the signal `name`, for `names` and at `waitpoints` (ids); with none of them, for an operator.

    `waitpoint` opens one of that name, and waits for the signal sent with its token. `needed` is the number of signals
    that end the wait, by default 1, or "all".
    """

    name: Name | None = None
    names: _Several = []
    waitpoint: bool = False
    waitpoints: _Several = []
    needed: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIGNALS)] | Literal["all"] | None = None
    distinct: Distinct = "signals"
    expires: Seconds = _DAY
    schema: dict[str, Any] | None = None
    timeout: Seconds | None = None
    on_timeout: OnTimeout = "fail"
    delay: Seconds = 0
    step_name: Name | None = None


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the job's stream."""

    cursor: str


class SummaryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the job's summary now."""

    version: int


class RunSpent(msgspec.Struct, frozen=True, kw_only=True):
    """The budget that was charged; `again` is true if it was charged before under the same key."""

    budget: str
    again: bool


@group.post("/work/emit", needs="work", bulk=True)
async def emit_frames(call: Call, body: Emitting) -> StreamEnd:
    """Append frames to the job's stream."""
    frames = [_frame(new) for new in body.frames]
    return StreamEnd(cursor=await leases_of(call).aemit(body.handle, frames, batch=body.batch))


@group.post("/work/progress", needs="work")
async def say_progress(call: Call, body: Progressing) -> StreamEnd:
    """Report the job's progress."""
    leases = leases_of(call)
    return StreamEnd(
        cursor=await leases.aprogress(body.handle, body.percent, body.message, body.stage, batch=body.batch)
    )


@group.post("/work/summary", needs="work")
async def change_summary(call: Call, body: Summarizing) -> SummaryVersion:
    """Change the job's summary."""
    return SummaryVersion(version=await leases_of(call).asummarize(body.handle, body.patch))


@group.post("/work/spend", needs="work")
async def spend(call: Call, body: Spending) -> RunSpent:
    """Charge a budget. Spending is always recorded, even over the limit."""
    spent = await leases_of(call).aspend(body.handle, body.budget, body.amounts, key=body.key)
    return RunSpent(budget=body.budget, again=spent.again)


@group.post("/work/settle", needs="work")
async def settle(call: Call, body: Settling) -> None:
    """Settle a reservation: charge what was used and release the rest. Only the first call counts."""
    await leases_of(call).asettle(body.handle, body.budget, body.amounts)


@group.post("/work/artifact", needs="work", status=201, bulk=True)
async def store_artifact(call: Call, body: NewArtifact) -> Artifact:
    """Store an artifact.

    Storing the same content again succeeds; other content under the same name is a conflict. The body may have 16 MiB.
    """
    if (body.text is None) is (body.base64 is None):
        raise InvalidInput("give an artifact's content either as text or as base64, not both")
    data = body.text if body.base64 is None else _bytes(body.base64)
    return await leases_of(call).aartifact(body.handle, body.name, data, content_type=body.content_type)


@group.post("/work/steps", needs="work")
async def read_steps(call: Call, body: OfRun) -> Page[StepInfo]:
    """List the steps recorded by the job's runs, in order."""
    return whole(await leases_of(call).asteps(body.handle))


@group.post("/work/steps/record", needs="work")
async def record_step(call: Call, body: NewStep) -> StepInfo:
    """Record a step's result for later runs. The first result recorded under a name is kept."""
    return await leases_of(call).arecord_step(body.handle, body.name, body.value)


@group.post("/work/waitpoint", needs="work")
async def open_waitpoint(call: Call, body: NewWaitpoint) -> Opened:
    """Open a waitpoint with a token that lets its holder send the signal; repeating it returns the same one."""
    return await leases_of(call).awaitpoint(
        body.handle, body.name, expires=body.expires, schema=body.schema, once=body.once
    )


@group.post("/work/suspend", needs="work")
async def suspend_run(call: Call, body: Suspending) -> Waited:
    """Wait for signals.

    If they have already arrived, the run continues with them. Otherwise the worker no longer holds the job: after the
    signals have arrived it is claimed again, and the same call returns them.
    """
    names = [*([] if body.name is None else [body.name]), *body.names]
    how = {key: value for key, value in msgspec.structs.asdict(body).items() if key not in ("handle", "name", "names")}
    return await leases_of(call).asuspend(body.handle, *names, **how)


def _frame(new: NewFrame) -> FrameDraft:
    if (new.data is msgspec.UNSET) is (new.base64 is None):
        raise InvalidInput("give either a frame's data or its base64, not both")
    data = new.data if new.base64 is None else _bytes(new.base64)
    return FrameDraft(data, new.kind, new.best_effort, new.source, new.correlation_id)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as wrong:
        raise InvalidInput(f"invalid base64: {wrong}") from None
