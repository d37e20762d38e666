"""Job filters, as a query and as part of a body."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ...clock import SECOND
from ...model.answers import JobFilter
from ...model.jobs import JobState
from ...names import CREATOR_BYTES, TAG_BYTES, check_instant
from ..wire.call import Call
from ..wire.failures import Refused
from .newjobs import STORABLE, Instant, Priority
from .types import Cursor, Name, QueueName, Seconds

_Prefix: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, pattern=STORABLE, description="A prefix of the id.")
]
_Text: TypeAlias = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=256, pattern=STORABLE, description="Text in the stored arguments or error."),
]
_Label: TypeAlias = Annotated[
    Literal["delayed", "retrying", "throttled"],
    msgspec.Meta(description="Ready jobs that are not due yet, by reason."),
]
_Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TAG_BYTES, pattern=STORABLE)]
_Creator: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=CREATOR_BYTES,
        pattern=STORABLE,
        description="The actor that enqueued it, such as token:shop.",
    ),
]
_Tries: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=500)]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters on jobs. "After" includes its time, "before" does not; `older_than` is seconds since the end."""

    state: list[JobState] = []
    label: _Label | None = None
    queue: QueueName | None = None
    task: Name | None = None
    tenant: Name | None = None
    reason: Name | None = None
    id: _Prefix | None = None
    flow: Name | None = None
    worker: Name | None = None
    affinity: QueueName | None = None
    tag: _Tag | None = None
    text: _Text | None = None
    created_by: _Creator | None = None
    priority: Priority | None = None
    min_attempts: _Tries | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    finished_after: Instant | None = None
    finished_before: Instant | None = None
    older_than: Seconds | None = None


class JobQuery(Wanted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters on jobs, and the position in the list."""

    order: Literal["created", "ended"] = "created"
    limit: _Limit = 50
    after: Cursor | None = None


def filter_of(call: Call, wanted: Wanted, before: str | None = None) -> JobFilter:
    """Return the filter as the client takes it. Searching in arguments needs the scope `payload`."""
    if wanted.text is not None and not call.may("payload"):
        raise Refused(
            403,
            "forbidden",
            "Missing scope: payload (text is searched in arguments)",
        )
    said: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(wanted).items() if name not in ("state", "after")
    }
    for name in ("created_after", "created_before", "finished_after", "finished_before"):
        said[name] = None if said[name] is None else check_instant(name, said[name])
    said["older_than"] = None if wanted.older_than is None else round(wanted.older_than * SECOND)
    states = tuple(dict.fromkeys(map(str, wanted.state)))
    if len(states) == 1:
        return JobFilter(state=states[0], before=before, **said)
    return JobFilter(states=states or None, before=before, **said)
