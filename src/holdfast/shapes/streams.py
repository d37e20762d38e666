"""Streams of jobs: frames, progress, a summary."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import msgspec

from ..model.streams import Frame as FrameRecord
from ..model.streams import StreamPage
from ..model.values import instant_of


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One piece. Text and JSON are `data`, bytes are `base64`; `control` ones are about the frames before them."""

    cursor: str
    seq: int
    kind: str
    at: datetime | None
    attempt: int
    generation: int
    step: str | None
    best_effort: bool
    source: str | None
    correlation_id: str | None
    control: bool
    data: Any = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """Some frames in their order. `next` is where to read on; `closed` says that nothing comes after these."""

    items: list[Frame]
    next: str
    closed: bool


def of_frame(frame: FrameRecord) -> Frame:
    in_bytes = isinstance(frame.data, bytes)
    return Frame(
        cursor=frame.cursor,
        seq=frame.seq,
        kind=frame.kind,
        at=instant_of(frame.at),
        attempt=frame.attempt,
        generation=frame.generation,
        step=frame.step,
        best_effort=frame.best_effort,
        source=frame.source,
        correlation_id=frame.correlation_id,
        control=frame.control,
        data=msgspec.UNSET if in_bytes else frame.data,
        base64=base64.b64encode(frame.data).decode() if in_bytes else msgspec.UNSET,
    )


def of_frames(page: StreamPage) -> Frames:
    return Frames(items=[of_frame(frame) for frame in page.frames], next=page.cursor, closed=page.closed)
