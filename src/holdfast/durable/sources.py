"""The data of an artifact, as a handler gives it: bytes, text, a file by its path, or an open file."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import stat
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeAlias

from ..errors import InvalidInput

TEXT: Final = "text/plain; charset=utf-8"
_LONGEST_PATH: Final = 1_024
_PATH: Final = re.compile(r"(?!\w+://)\S*/\S*\.[A-Za-z]\w{0,4}")
BINARY: Final = "application/octet-stream"


class Readable(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


Data: TypeAlias = "bytes | bytearray | memoryview | str | os.PathLike[str] | Readable"


class Source:
    """Reads the data once, from beginning to end, and computes their size and hash meanwhile. It blocks."""

    def __init__(self, open_: Callable[[], Readable], *, ours: bool) -> None:
        self._open = open_
        self._ours = ours
        self._file: Any = None
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Return the hash of what was read so far."""
        return self._hash.hexdigest()

    def read(self, size: int) -> bytes:
        """Return `size` bytes; fewer only at the end."""
        if self._file is None:
            self._file = self._open()
        parts: list[bytes] = []
        left = size
        while left and (part := _bytes(self._file.read(left))):
            parts.append(part)
            left -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._hash.update(data)
        self.size += len(data)
        return data

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._ours and self._file is not None:
            self._file.close()


def source_of(data: object) -> Source:
    """Return the source of some data; InvalidInput if nothing can be read from it."""
    if isinstance(data, str):
        text = data
        return Source(lambda: BytesIO(_encoded(text)), ours=True)
    if isinstance(data, (bytes, bytearray, memoryview)):
        content = bytes(data)
        return Source(lambda: BytesIO(content), ours=True)
    if isinstance(data, os.PathLike):
        path = Path(os.fspath(data))
        return Source(lambda: _opened(path), ours=True)
    if not callable(getattr(data, "read", None)):
        kind = type(data).__qualname__
        raise InvalidInput(f"an artifact is made of bytes, text, a path or an open file, not of {kind}")
    file: Any = data
    return Source(lambda: file, ours=False)


def check_not_a_path(name: str, data: object) -> None:
    """Refuse a text that was probably meant as the path of a file."""
    if not isinstance(data, str) or len(data) > _LONGEST_PATH or not data.isprintable():
        return
    if data == name or _PATH.fullmatch(data) or os.path.isfile(data):
        raise InvalidInput(
            f"the data of artifact {name!r} is the text {data!r}, which looks like a path;"
            " give pathlib.Path(…) for the file, or bytes for the text itself"
        )


def type_of(data: object) -> str:
    """Return the default content type."""
    return TEXT if isinstance(data, str) else BINARY


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the artifact's text contains half of a surrogate pair; encode it yourself") from error


def _opened(path: Path) -> IO[bytes]:
    try:
        # Not a device that never ends, or a pipe that waits for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInput(f"{path} is not a regular file; open it yourself and pass what you read")
        return path.open("rb", buffering=0)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the artifact's file {str(path)!r} cannot be read: {error}") from error


def _bytes(part: Any) -> bytes:
    if inspect.iscoroutine(part):
        part.close()
        raise InvalidInput("the artifact's file is read by await; read it yourself and pass the bytes")
    if not isinstance(part, (bytes, bytearray, memoryview)):
        got = type(part).__qualname__
        raise InvalidInput(f'the artifact\'s file gives {got} instead of bytes; open it with mode "rb"')
    return bytes(part)
