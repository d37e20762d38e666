"""Blobs as files: whole or not there, whatever breaks on the way, and nothing else in the folder is touched."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corruption, StorageFull, StorageReadOnly, StorageUnavailable
from holdfast.model.artifacts import PART
from holdfast.rules.artifacts import pieces
from holdfast.storage.blobs import Awaiting, Blocking
from holdfast.storage.sqlite import files
from holdfast.storage.sqlite.files import FileBlobs
from holdfast.storage.step import step
from tests.patience import SOON

BLOB = "01" * 13
REACH: Any = Blocking(lambda: pytest.fail("no store is asked"))


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    return FileBlobs(str(tmp_path / "jobs.db"))


def source(*parts: bytes) -> Callable[[], Any]:
    left = list(parts)

    async def more() -> bytes:
        return left.pop(0) if left else b""

    return more


def write(blobs: FileBlobs, *parts: bytes, blob: str = BLOB) -> None:
    step(blobs.write(REACH, blob, source(*parts)))


def listed(blobs: FileBlobs) -> list[str]:
    return sorted(os.listdir(blobs.folder)) if os.path.exists(blobs.folder) else []


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_before_anybody_is_told(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noting(name: str) -> None:
        real = getattr(os, name)

        def note(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(files.os, name, note)

    for name in ("mkdir", "write", "fsync", "rename"):
        noting(name)
    write(blobs, b"one", b"two")
    # The folder's own name, the bytes, and the file's name in the folder are each synced.
    assert done == ["mkdir", "fsync", "write", "write", "fsync", "rename", "fsync"]
    assert step(blobs.read(REACH, BLOB, 0, 100)) == b"onetwo"
    assert step(blobs.read(REACH, BLOB, 2, 3)) == b"etw"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EROFS, StorageReadOnly),
        (errno.EACCES, StorageReadOnly),
        (errno.EIO, StorageUnavailable),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_whatever_breaks_is_a_typed_error_and_leaves_no_file(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[Exception]
) -> None:
    os.mkdir(blobs.folder)

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, call, fails)
        with pytest.raises(kind):
            write(blobs, b"some")
    assert [name for name in listed(blobs) if name == BLOB] == []
    assert listed(blobs) == [] or call == "rename"
    step(blobs.remove(REACH, BLOB))
    assert listed(blobs) == []
    write(blobs, b"some")
    assert step(blobs.read(REACH, BLOB, 0, 4)) == b"some"


def test_a_short_write_is_continued(blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]))
    write(blobs, b"0123456789")
    assert step(blobs.read(REACH, BLOB, 0, 10)) == b"0123456789"


def test_a_file_is_not_closed_under_its_thread_however_often_its_writer_is_cancelled(blobs: FileBlobs) -> None:
    async def main() -> None:
        loop, is_free, begun = asyncio.get_running_loop(), threading.Event(), asyncio.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))

        async def more() -> bytes:
            # From here on the only thread is busy, and the write has to wait for it.
            loop.run_in_executor(None, is_free.wait)
            begun.set()
            return b"some"

        writing = asyncio.create_task(blobs.write(Awaiting(pytest.fail), BLOB, more))
        await begun.wait()
        for _ in range(3):
            await asyncio.sleep(0)
            writing.cancel()
        await asyncio.sleep(0)
        assert not writing.done()
        other = os.open(os.path.join(blobs.folder, "other"), os.O_CREAT | os.O_WRONLY)
        is_free.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        os.close(other)

    asyncio.run(main())
    assert listed(blobs) == ["other"]
    assert (Path(blobs.folder) / "other").read_bytes() == b""


def test_a_loop_that_closes_waits_for_the_thread_that_writes(blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    is_free, real = threading.Event(), files._write

    def write_late(descriptor: int, data: bytes) -> None:
        assert is_free.wait(SOON)
        real(descriptor, data)
        written.append(os.fstat(descriptor).st_size)

    async def free_once_all_are_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            is_free.set()

    async def main() -> None:
        begun = asyncio.Event()

        async def more() -> bytes:
            begun.set()
            return b"some"

        left = [blobs.write(Awaiting(pytest.fail), BLOB, more), free_once_all_are_cancelled()]
        tasks.extend(map(asyncio.create_task, left))
        await begun.wait()
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    monkeypatch.setattr(files, "_write", write_late)
    asyncio.run(main())
    assert written == [4]
    assert all(task.cancelled() for task in tasks)


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "0" * 25, "0" * 27, "A" * 26, "/" + "0" * 25])
def test_only_what_is_named_as_a_blob_is_ever_opened_or_removed(blobs: FileBlobs, name: str) -> None:
    for act in (blobs.read(REACH, name, 0, 1), blobs.remove(REACH, name), blobs.write(REACH, name, source(b"x"))):
        with pytest.raises(Corruption):
            step(act)


def test_a_link_is_not_followed(blobs: FileBlobs, tmp_path: Path) -> None:
    os.mkdir(blobs.folder)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (Path(blobs.folder) / BLOB).symlink_to(secret)
    with pytest.raises(StorageUnavailable):
        step(blobs.read(REACH, BLOB, 0, 6))
    assert blobs.strays(0, math.inf) == []


def test_clearing_removes_blobs_and_leaves_what_somebody_else_put_there(blobs: FileBlobs) -> None:
    blobs.clear()
    write(blobs, b"x")
    blobs.clear()
    assert not os.path.exists(blobs.folder)
    write(blobs, b"x")
    (Path(blobs.folder) / "notes.txt").write_text("mine")
    blobs.clear()
    assert listed(blobs) == ["notes.txt"]


@given(size=st.integers(0, 5 * PART), start=st.integers(0, 6 * PART), length=st.none() | st.integers(0, 6 * PART))
def test_pieces_make_up_the_range_and_none_lies_in_two_parts(size: int, start: int, length: int | None) -> None:
    found = list(pieces(size, start, length))
    end = size if length is None else min(size, start + length)
    assert sum(n for _, n in found) == max(0, end - start)
    at = start
    for offset, n in found:
        assert (offset, n > 0) == (at, True)
        assert offset // PART == (offset + n - 1) // PART
        at += n
