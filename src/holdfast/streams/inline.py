"""The stream of an inline job, which has no store: frames are kept in memory for readers in this process."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from ..clock import SYSTEM_CLOCK
from ..model.streams import END, Cursor, Draft, Frame, FramePage, Progress, Summary
from ..model.values import instant_of
from ..rules.streams import merged
from ..storage.ops.streams import decoded
from ..tasks.context import JobInfo
from .drafts import patch_of


class InlineOutlet:
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
            at=SYSTEM_CLOCK.now(),
            best_effort=draft.best_effort,
            source=draft.source or None,
            correlation_id=draft.correlation_id or None,
        )
