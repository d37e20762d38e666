"""Blobs as files in a folder beside the database: `jobs.db-artifacts`.

A file appears under its name when all of it is on the disk: it is written under another, synced, renamed, and the
folder synced. Only files that are named like blobs are touched here.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ...errors import Corruption, StorageError, StorageFull, StorageReadOnly, StorageUnavailable
from ..blobs import More, Reach
from ..disk import sync_folder
from .location import Location

_NAME: Final = re.compile(r"[0-9a-z]{26}")
_UNFINISHED: Final = ".part"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OLD: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class FileBlobs:
    """`database` is the path of the SQLite file."""

    kind = "files"

    def __init__(self, database: str) -> None:
        self.folder: Final = f"{database}-artifacts"

    def put(self, blob: str, data: bytes) -> None:
        """Write a whole blob; it is safely on the disk when this returns. Blocks."""
        path = self._path(blob)
        descriptor = self._create(path)
        try:
            _write(descriptor, data)
            _sync(descriptor)
        except BaseException:
            os.close(descriptor)
            _unlink(path + _UNFINISHED)
            raise
        os.close(descriptor)
        self._settle(path)

    def get(self, blob: str) -> bytes | None:
        """Return a whole blob; None where there is none. Blocks."""
        with _typed():
            try:
                with open(os.open(self._path(blob), _OLD), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    async def write(self, reach: Reach, blob: str, more: More) -> None:
        path = self._path(blob)
        descriptor = await reach.run(self._create, path)
        try:
            while data := await more():
                await reach.run(_write, descriptor, data)
            await reach.run(_sync, descriptor)
        except BaseException:
            os.close(descriptor)
            await reach.run(_unlink, path + _UNFINISHED)
            raise
        os.close(descriptor)
        await reach.run(self._settle, path)

    async def read(self, reach: Reach, blob: str, start: int, length: int) -> bytes | None:
        return await reach.run(_read, self._path(blob), start, length)

    async def remove(self, reach: Reach, blob: str) -> None:
        path = self._path(blob)
        await reach.run(_unlink, path + _UNFINISHED)
        await reach.run(_unlink, path)

    def strays(self, since: float, until: float) -> list[str]:
        found: set[str] = set()
        with suppress(FileNotFoundError), _typed(), os.scandir(self.folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(_UNFINISHED)
                if _NAME.fullmatch(name) and _is_file_of(entry, since, until):
                    found.add(name)
        return sorted(found)

    def clear(self) -> None:
        for blob in self.strays(0.0, math.inf):
            for path in (self._path(blob), self._path(blob) + _UNFINISHED):
                _unlink(path)
        with suppress(OSError):
            os.rmdir(self.folder)  # other files in it stay

    def _path(self, blob: str) -> str:
        if not _NAME.fullmatch(blob):
            raise Corruption(f"{blob!r:.60} is not the name of a blob", backend="sqlite")
        return os.path.join(self.folder, blob)

    def _create(self, path: str) -> int:
        with _typed():
            try:
                return os.open(path + _UNFINISHED, _NEW, 0o600)
            except FileNotFoundError:
                self._make_folder()
                return os.open(path + _UNFINISHED, _NEW, 0o600)

    def _make_folder(self) -> None:
        with suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
        sync_folder(os.path.dirname(self.folder))

    def _settle(self, path: str) -> None:
        with _typed():
            os.rename(path + _UNFINISHED, path)
            sync_folder(self.folder)


def files_of(location: Location) -> FileBlobs | None:
    """Return the files beside a database; None beside one in memory."""
    return FileBlobs(location.path) if location.path is not None else None


def _is_file_of(entry: os.DirEntry[str], since: float, until: float) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and since <= status.st_mtime <= until


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    with _typed():
        while view:
            view = view[os.write(descriptor, view) :]


def _sync(descriptor: int) -> None:
    with _typed():
        os.fsync(descriptor)


def _read(path: str, start: int, length: int) -> bytes | None:
    with _typed():
        try:
            descriptor = os.open(path, _OLD)
        except FileNotFoundError:
            return None
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError), _typed():
        os.unlink(path)


@contextmanager
def _typed() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _translated(error) from error


def _translated(error: OSError) -> StorageError:
    what = f"{error.strerror or error} ({error.filename})" if error.filename else str(error.strerror or error)
    if error.errno in _FULL:
        return StorageFull(f"{what}; nothing was stored: free disk space and repeat the call", backend="sqlite")
    if error.errno in _FORBIDDEN:
        return StorageReadOnly(f"{what}; make the folder writable for this user", backend="sqlite")
    return StorageUnavailable(f"{what}; check the disk and its file system", backend="sqlite")
