"""Streams of jobs: frames, a summary, progress."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ..errors import InvalidCursor
from .values import Instant

FRAME_LIMIT: Final = 64 * 1024
"""Bytes of one frame."""
MAX_FRAMES: Final = 1_000_000
"""Durable frames of one job."""
MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
"""Bytes of one job's durable frames."""
MAX_PAGE: Final = 10_000
"""Frames of one read."""
MESSAGE_LIMIT: Final = 1024
"""Bytes of a progress message."""
SUPERSEDED: Final = "superseded"
TRIMMED: Final = "trimmed"

Encoding: TypeAlias = Literal["text", "bytes", "json", "control", "restart"]

_CURSOR: Final = re.compile(r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A reader's position: the last durable frame, and the last best-effort one."""

    seq: int = 0
    live: int = 0

    @classmethod
    def read(cls, text: object) -> Cursor:
        match = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidCursor(f"{str(text)[:60]!r} is no cursor of a stream; pass back that of a frame")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.seq}.{self.live}"


START: Final = Cursor()
END: Final = Cursor(2**62, 2**62)
"""The position after every frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One piece of a job's output."""

    cursor: str
    """Pass it as `after=` to continue after this frame."""
    seq: int
    """Its number among the frames of its kind: durable ones, or best-effort ones. From 1, without gaps."""
    kind: str
    """output, stdout, stderr, log, or a kind that the job chose."""
    data: Any
    """Text, bytes, or a JSON value."""
    attempt: int
    step: str | None
    """The durable step that emitted it, such as `draft#1`."""
    at: Instant
    """By the store's clock."""
    best_effort: bool = False
    generation: int = 0
    """The number of times that the job had been retried by an operator."""
    source: str | None = None
    """The source that the job gave, if any, such as a model or a tool."""
    correlation_id: str | None = None
    """The id that the job gave, if any, of something elsewhere, such as a request."""
    control: bool = False
    """Set on frames that Holdfast adds: `superseded` (data: step, first, last) or `trimmed` (data: lost)."""

    @property
    def encoded(self) -> EncodedFrame:
        """Return the frame as JSON shows it."""
        in_bytes = isinstance(self.data, bytes)
        return EncodedFrame(
            cursor=self.cursor,
            seq=self.seq,
            kind=self.kind,
            at=self.at,
            attempt=self.attempt,
            generation=self.generation,
            step=self.step,
            best_effort=self.best_effort,
            source=self.source,
            correlation_id=self.correlation_id,
            control=self.control,
            data=msgspec.UNSET if in_bytes else self.data,
            base64=base64.b64encode(self.data).decode() if in_bytes else msgspec.UNSET,
        )


class EncodedFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame in JSON: text and JSON are `data`, bytes are `base64`."""

    cursor: str
    seq: int
    kind: str
    at: Instant
    attempt: int
    generation: int
    step: str | None
    best_effort: bool
    source: str | None
    correlation_id: str | None
    control: bool
    data: Any = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Some frames, in order."""

    frames: tuple[Frame, ...]
    cursor: str
    """The position from which to continue."""
    closed: bool
    """The job has ended, and nothing comes after these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a job; None for what it has not reported."""

    percent: float | None = None
    message: str | None = None
    stage: str | None = None
    at: Instant | None = None

    def updated(self, later: Progress) -> Progress:
        """Return this progress with later values; fields that are None there stay."""
        return Progress(
            percent=self.percent if later.percent is None else later.percent,
            message=self.message if later.message is None else later.message,
            stage=self.stage if later.stage is None else later.stage,
            at=self.at if later.at is None else later.at,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """A job's own document about itself. Version 0 is before its first change."""

    document: dict[str, Any]
    version: int
    at: Instant | None = None


# -- on the way to the store


@dataclass(frozen=True, slots=True)
class Draft:
    """A frame without a number. The encoding `restart` marks a step that begins again."""

    kind: str
    encoding: Encoding
    data: bytes
    step: str = ""
    best_effort: bool = False
    source: str = ""
    correlation_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The frames of one run since its last batch."""

    job_id: str
    owner: str
    epoch: int
    generation: int
    attempt: int
    writer: str
    """The id of the sender; with `serial` a repeated batch is recognised."""
    serial: int
    drafts: tuple[Draft, ...] = ()
    progress: Progress | None = None
    stages: tuple[str, ...] = ()
    """The stages that it reported, of which `progress` has the last."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of a batch. `refused` durable frames did not fit into the stream."""

    head: int
    live: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a stream as it is locked. `now` is the store's clock."""

    head: int
    live: int
    trimmed: int
    bytes: int
    rate: float
    rate_at: int | None
    writer: str
    batch: int
    now: int


@dataclass(frozen=True, slots=True)
class FramePage:
    """The result of reading a stream."""

    ended: bool
    head: Cursor
    trimmed: int
    frames: tuple[Frame, ...]
