"""A working directory that lies within another, with all links resolved."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ..errors import InvalidInput

_HAS_PROC: Final = sys.platform == "linux"


class Folder:
    """Held open from the check to the use, so that it cannot be replaced by a link in between.

    `path` names what was checked, to this process and to one that it starts.
    """

    def __init__(self, root: Path, within: str) -> None:
        if "\0" in within:
            raise InvalidInput("the working directory has a NUL character in its name")
        wanted = root / within
        try:
            self._handle = os.open(wanted, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise InvalidInput(f"the working directory {within!a} cannot be used: {error.strerror}") from None
        found = _path_of(self._handle, wanted)
        if not found.is_relative_to(root):
            os.close(self._handle)
            raise InvalidInput(f"the working directory {within!a} does not lie within that of the task")
        # A program changes to it before it closes our handles.
        self.path = f"/proc/self/fd/{self._handle}" if _HAS_PROC else str(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._handle)


def _path_of(handle: int, wanted: Path) -> Path:
    """Return the real path of an open directory."""
    if _HAS_PROC:
        return Path(os.readlink(f"/proc/self/fd/{handle}"))
    return wanted.resolve()
