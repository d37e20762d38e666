"""How far one reader of a stream is, and when it looks again. It knows no store: those who read ask it what to read."""

from __future__ import annotations

from typing import Final

from ..errors import CursorExpired, InvalidCursor
from ..model.stream import END, START, SUPERSEDED, TRIMMED, Cursor, Frame, StreamPage, Stretch

# Seconds. On SQLite any commit of another process rings: one look in so long is enough for a stream.
_BETWEEN_LOOKS: Final = 0.004
_AFTER_NOTHING: Final = 0.05
# A ring may be lost; then a look finds what came. While much is said, a silence is suspicious.
_FIRST_SILENCE: Final = 0.05
_LONGEST_SILENCE: Final = 2.0


class Tail:
    """A reader's place in one stream."""

    def __init__(
        self, job_id: str, after: str | None, limit: int, *, best_effort: bool, until: str | None = None
    ) -> None:
        self.job_id: Final = job_id
        self.limit: Final = limit
        self.best_effort: Final = best_effort
        self.until: Final = END if until is None else Cursor.read(until)
        self.cursor = START if after is None else Cursor.read(after)
        self.may_be_more = False
        """The last page was full: there may be another behind it."""
        self._is_new = True
        self._is_resumed = after is not None
        self._empty = 0

    @property
    def topic(self) -> str:
        return f"stream:{self.job_id}"

    @property
    def place(self) -> tuple[object, ...]:
        """Whoever is there sees the same."""
        return (self.job_id, self.cursor, self.limit, self.best_effort, self.until)

    def take(self, found: Stretch) -> StreamPage:
        """What a look found, as the reader shall see it."""
        lost = self._lost(found)
        frames = [frame for frame in found.frames if self._concerns(frame)]
        self.may_be_more = len(found.frames) == self.limit
        if lost:
            frames.insert(0, _trimmed(self.cursor, found, lost))
        if found.frames:
            self.cursor = Cursor.read(found.frames[-1].cursor)
        elif lost:
            self.cursor = Cursor(self.cursor.seq, found.trimmed)
        self._empty = 0 if frames else self._empty + 1
        self._is_new = False
        closed = found.ended and not self.may_be_more and (self.until is END or self.cursor >= found.head)
        return StreamPage(tuple(frames), str(self.cursor), closed)

    def nothing(self) -> StreamPage:
        return StreamPage((), str(self.cursor), False)

    @property
    def pause(self) -> float:
        """How long to leave the store alone after a look, even if it rings."""
        return min(_BETWEEN_LOOKS * (1 << min(self._empty, 8)), _AFTER_NOTHING)

    @property
    def silence(self) -> float:
        """How long to wait for a ring."""
        return min(_FIRST_SILENCE * (1 << min(self._empty, 6)), _LONGEST_SILENCE)

    def _lost(self, found: Stretch) -> int:
        """How many best-effort frames it has missed; an error where it came with a cursor from before."""
        if self._is_new and (self.cursor.seq > found.head.seq or self.cursor.live > found.head.live):
            raise InvalidCursor(f"{self.cursor} is behind the end of the stream of job {self.job_id}; read it anew")
        lost = found.trimmed - self.cursor.live
        if not self.best_effort or lost <= 0 or (self._is_new and not self._is_resumed):
            return 0
        if self._is_new:
            resume = Cursor(self.cursor.seq, found.trimmed)
            raise CursorExpired(
                f"{lost:,} best-effort frames after {self.cursor} are gone; {resume} loses nothing else", str(resume)
            )
        return lost

    def _concerns(self, frame: Frame) -> bool:
        """That frames were superseded is news to those alone who were beyond the first of them."""
        return not frame.control or frame.kind != SUPERSEDED or self.cursor.seq >= frame.data["first"]


def _trimmed(place: Cursor, found: Stretch, lost: int) -> Frame:
    at = found.frames[0] if found.frames else None
    return Frame(
        cursor=str(Cursor(place.seq, found.trimmed)), seq=found.trimmed, kind=TRIMMED, data={"lost": lost},
        attempt=at.attempt if at else 0, step=None, at=at.at if at else 0, best_effort=True, control=True,
    )  # fmt: skip
