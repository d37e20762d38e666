"""Capture what a job prints and logs as frames of its stream, for tasks with `capture=`.

Printed text still reaches its stream. A contextvar says which job it belongs to, so that concurrent jobs are
distinguished; threads that a handler starts itself do not inherit it, and neither do programs that it runs.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any, Final, TextIO

import msgspec

from ..model.streams import FRAME_LIMIT, Draft
from ..rules.redaction import redact
from ..tasks.context import JobInfo, Stop
from .calls import buffer_of
from .writer import FrameBuffer

_sink: Final[ContextVar[Sink | None]] = ContextVar("holdfast_capture", default=None)
_lock: Final = threading.RLock()
_open: Final[set[Sink]] = set()


def capture(info: JobInfo, app: Any, stop: Stop, wanted: Collection[str]) -> None:
    """Capture what the code in this context prints and logs, until the job's stream is closed."""
    if not wanted:
        return
    buffer: FrameBuffer = buffer_of(info, app, stop)  # type: ignore[assignment]
    if buffer.source is None:
        buffer.source = Sink(buffer, frozenset(wanted))
        with _lock:
            _open.add(buffer.source)
            _tap()
    _sink.set(buffer.source)


class Sink:
    """Turns lines into frames."""

    def __init__(self, buffer: FrameBuffer, wanted: frozenset[str]) -> None:
        self.wanted: Final = wanted
        self._buffer = buffer
        self._rest: dict[str, str] = {}
        self._lock = threading.RLock()

    def write(self, kind: str, text: str) -> None:
        with self._lock:
            *lines, rest = (self._rest.get(kind, "") + text).split("\n")
            for line in lines:
                self._say(kind, line + "\n")
            self._rest[kind] = rest
            if len(rest) >= FRAME_LIMIT // 8:
                self._say(kind, self._rest.pop(kind))

    def log(self, record: logging.LogRecord) -> None:
        entry = {"level": record.levelname.lower(), "logger": record.name, "message": _clean(record.getMessage())}
        if record.exc_info:
            entry["error"] = _clean(redact(_FORMATTER.formatException(record.exc_info)))
        data = msgspec.json.encode(entry)
        if len(data) > FRAME_LIMIT:
            entry = {name: value[: FRAME_LIMIT // 16] for name, value in entry.items()}
            data = msgspec.json.encode(entry)
        self._buffer.put(Draft("log", "json", data), captured=True)

    def close(self) -> None:
        with self._lock:
            for kind, rest in self._rest.items():
                if rest:
                    self._say(kind, rest)
            self._rest.clear()
        with _lock:
            _open.discard(self)
            _untap()

    def _say(self, kind: str, text: str) -> None:
        data = text.encode("utf-8", "replace")
        # Cut between characters: each takes at most four bytes.
        while len(data) > FRAME_LIMIT:
            piece = data[: FRAME_LIMIT - 4].decode("utf-8", "ignore").encode()
            self._buffer.put(Draft(kind, "text", piece), captured=True)
            data = data[len(piece) :]
        self._buffer.put(Draft(kind, "text", data), captured=True)


class _Tap:
    """Replaces a standard stream while the output of a job is captured."""

    def __init__(self, stream: TextIO, kind: str) -> None:
        self._stream = stream
        self._kind = kind

    def write(self, text: str) -> int:
        sink = _sink.get()
        if sink is not None and sink in _open and self._kind in sink.wanted:
            sink.write(self._kind, text)
        return self._stream.write(text)

    def writelines(self, lines: Collection[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _LogTap(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sink = _sink.get()
        if sink is not None and sink in _open and "logs" in sink.wanted:
            try:
                sink.log(record)
            except Exception:
                self.handleError(record)


def _tap() -> None:
    for kind in ("stdout", "stderr"):
        stream = getattr(sys, kind)
        # The program may have replaced the stream since.
        if stream is not None and not isinstance(stream, _Tap):
            setattr(sys, kind, _Tap(stream, kind))
    if _LOGS not in logging.getLogger().handlers:
        logging.getLogger().addHandler(_LOGS)


def _untap() -> None:
    if _open:
        return
    for kind in ("stdout", "stderr"):
        if isinstance(tap := getattr(sys, kind), _Tap):
            setattr(sys, kind, tap._stream)
    logging.getLogger().removeHandler(_LOGS)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


_LOGS: Final = _LogTap()
_FORMATTER: Final = logging.Formatter()
