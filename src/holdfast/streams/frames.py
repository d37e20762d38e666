"""Frames, progress and summaries as handlers give them: checked and encoded, and kept in memory for an inline job."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from ..clock import SYSTEM_CLOCK
from ..errors import FrameTooLarge, InvalidArguments, InvalidInput, PayloadTooLarge
from ..model.streams import (
    END,
    FRAME_LIMIT,
    MESSAGE_LIMIT,
    SUPERSEDED,
    TRIMMED,
    Cursor,
    Draft,
    Encoding,
    Frame,
    FramePage,
    Progress,
    Summary,
)
from ..model.values import instant_of
from ..names import check_name
from ..rules.streams import merged
from ..storage.ops.streams import decoded
from ..tasks.context import JobInfo
from ..values import codec

_RESERVED: Final = frozenset({SUPERSEDED, TRIMMED})


def draft_of(
    data: object, kind: object, step: str, best_effort: bool, source: object = None, correlation_id: object = None
) -> Draft:
    """Return a frame of text, bytes or a JSON value."""
    name = check_name("the frame's kind", kind)
    if name in _RESERVED:
        raise InvalidInput(f"frames of kind {name!r} are about other frames; choose another kind")
    encoding, encoded = _encoded(data)
    if len(encoded) > FRAME_LIMIT:
        raise FrameTooLarge(len(encoded), FRAME_LIMIT)
    origin = "" if source is None else check_name("the frame's source", source)
    correlation = "" if correlation_id is None else check_name("the correlation id", correlation_id)
    return Draft(name, encoding, encoded, step, bool(best_effort), origin, correlation)


def progress_of(percent: object, message: object, stage: object) -> Progress:
    """Return the progress of a job; fields that are None stay as they were."""
    return Progress(
        percent=None if percent is None else _percent(percent),
        message=None if message is None else _message(message),
        stage=None if stage is None else "" if stage == "" else check_name("the stage", stage),
    )


def patch_of(patch: object) -> dict[str, Any]:
    """Return a merge patch as plain data."""
    if not isinstance(patch, Mapping):
        raise InvalidInput(f"a summary is changed by an object, not by {type(patch).__name__}; pass a dict")
    plain: dict[str, Any] = codec.decode(codec.encode(dict(patch), what="the summary"), dict[str, Any])
    return plain


def _encoded(data: object) -> tuple[Encoding, bytes]:
    if isinstance(data, str):
        try:
            return "text", str.__str__(data).encode()
        except UnicodeEncodeError as error:
            raise InvalidArguments(f"the frame holds a lone surrogate, which is no character: {error}") from error
    if isinstance(data, (bytes, bytearray, memoryview)):
        return "bytes", bytes(data)
    try:
        return "json", codec.encode(data, what="the frame", limit=FRAME_LIMIT).encode()
    except PayloadTooLarge as error:
        raise FrameTooLarge(error.size, error.limit) from error


def _percent(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidInput(f"percent must be a number, not {type(value).__name__}")
    if not 0 <= value <= 100:
        raise InvalidInput(f"percent is {value}; give a number from 0 to 100")
    return float(value)


def _message(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"the message must be text, not {type(value).__name__}")
    text = str.__str__(value)
    size = len(text.encode("utf-8", "replace"))
    if size > MESSAGE_LIMIT:
        raise InvalidInput(f"the message takes {size:,} bytes; shorten it to {MESSAGE_LIMIT:,}, or emit it")
    # Not every database can store these.
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


class InlineBuffer:
    """The stream of one inline job. It keeps all frames."""

    def __init__(self, info: JobInfo) -> None:
        self.progress = Progress()
        self.summary = Summary({}, 0)
        self._info = info
        self._frames: list[Frame] = []
        self._place = Cursor()

    def put(self, draft: Draft, *, captured: bool = False) -> Future[None] | None:
        if draft.encoding != "restart":
            live = int(draft.best_effort)
            self._place = Cursor(self._place.seq + 1 - live, self._place.live + live)
            self._frames.append(self._frame(draft))
        return None

    def restart(self, step: str) -> None:
        """Supersede the frames of a step that is tried again."""
        self._frames = [frame for frame in self._frames if frame.step != step]

    def tell(self, progress: Progress) -> None:
        self.progress = replace(self.progress.updated(progress), at=instant_of(SYSTEM_CLOCK.now()))

    def summarize(self, patch: dict[str, Any]) -> int:
        document = merged(self.summary.document, patch_of(patch))
        self.summary = Summary(document, self.summary.version + 1, instant_of(SYSTEM_CLOCK.now()))
        return self.summary.version

    def flush(self) -> Future[None] | None:
        return None

    def check(self) -> None:
        """Do nothing: no write can fail."""

    def read(self, after: Cursor, n: int, *, best_effort: bool, until: Cursor = END) -> FramePage:
        wanted = (f for f in self._frames if after < Cursor.read(f.cursor) <= until)
        frames = [f for f in wanted if best_effort or not f.best_effort]
        return FramePage(True, self._place, 0, tuple(frames[:n]))

    def _frame(self, draft: Draft) -> Frame:
        return Frame(
            cursor=str(self._place),
            seq=self._place.live if draft.best_effort else self._place.seq,
            kind=draft.kind,
            data=decoded(draft.encoding, draft.data),
            attempt=self._info.attempt,
            step=draft.step or None,
            at=instant_of(SYSTEM_CLOCK.now()),
            best_effort=draft.best_effort,
            source=draft.source or None,
            correlation_id=draft.correlation_id or None,
        )
