"""An append-only record outside the store of what handlers and callers have seen: on disk before it counts.

A line is written by one `write` and an `fsync`, so lines of different processes never mix, and a process that is killed
right after an effect has noted it. Marks:

    Q job 0       the call that enqueued it was acknowledged
    S job epoch   its handler begins
    E job epoch   its effect is done
    C job 0       a cancel was acknowledged that ended it at once
    step:NAME …   the effect of a step of it is done
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was seen. Lines stand in the order in which they were written."""

    mark: str
    job: str
    epoch: int
    pid: int = 0
    at: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Line:
        mark, job, epoch, pid, at = text.split()
        return cls(mark, job, int(epoch), int(pid), float(at))


def append(path: str | Path, mark: str, job: str, epoch: int = 0) -> None:
    """Write a line, and return when it is on disk."""
    line = f"{mark} {job} {epoch} {os.getpid()} {time.time()}\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: str | Path) -> tuple[Line, ...]:
    found = Path(path)
    return parsed(found.read_text().splitlines()) if found.exists() else ()


def parsed(texts: Iterable[str]) -> tuple[Line, ...]:
    return tuple(Line.parse(text) for text in texts)
