"""Every moment at which a process can die, as files: the database, and its write-ahead log up to some byte.

The log is a header of 32 bytes and frames of 24 bytes and a page; a frame whose header names the database's size ends a
commit. What is behind the last whole commit is not there for SQLite, however it is torn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = 32
_FRAME_HEADER = 24


@dataclass(frozen=True, slots=True)
class Image:
    """A state in which the files can be found. `commits` of its transactions count."""

    commits: int
    log: bytes
    how: str = "whole"


@dataclass(frozen=True)
class Recording:
    """A database as it was when the log was empty, and the log of all that followed."""

    base: bytes
    log: bytes

    @classmethod
    def of(cls, path: Path) -> Recording:
        return cls(path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes())

    @property
    def page_size(self) -> int:
        return int(struct.unpack(">I", self.log[8:12])[0])

    def commits(self) -> list[int]:
        """The byte behind each commit, in order."""
        size = _FRAME_HEADER + self.page_size
        salt = self.log[16:24]
        ends: list[int] = []
        for start in range(_HEADER, len(self.log) - size + 1, size):
            if self.log[start + 8 : start + 16] != salt:
                break  # of an earlier round of the log
            if struct.unpack(">I", self.log[start + 4 : start + 8])[0]:
                ends.append(start + size)
        return ends

    def images(self) -> Iterator[Image]:
        """After each commit; with its last frame torn in the middle and one bit of it flipped, it is the one before."""
        size = _FRAME_HEADER + self.page_size
        for n, end in enumerate(self.commits()):
            torn = self.log[: end - size // 2]
            flipped = bytearray(self.log[:end])
            flipped[end - size // 3] ^= 1
            yield Image(n, torn, "torn")
            yield Image(n, bytes(flipped), "flipped")
            yield Image(n + 1, self.log[:end])

    def write(self, image: Image, path: Path) -> None:
        path.write_bytes(self.base)
        path.with_name(f"{path.name}-wal").write_bytes(image.log)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
