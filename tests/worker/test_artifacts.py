"""Artifacts of running jobs: of every colour, in every size, once for all runs, and nothing left of what failed."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Fail, Job, NotFound, RetryPolicy, SyncContext
from holdfast.errors import Corruption, DuplicateArtifact, InvalidInput, LeaseLost, StorageFull
from holdfast.model.artifacts import INLINE, PART
from holdfast.storage.blobs import TableBlobs
from holdfast.storage.ops.artifacts import blobs
from holdfast.storage.port import Op
from holdfast.storage.sqlite import files
from holdfast.worker.maintenance.artifact_gc import ArtifactCollector
from tests.patience import SOON

from . import artifact_tasks
from .artifact_tasks import LARGE
from .worker_kit import AT_ONCE, Shop, live


async def swept(shop: Shop) -> None:
    sweeper = ArtifactCollector(shop.app.open(), lambda: True)
    while await sweeper.run_once() == 0.0:
        pass


def count(shop: Shop, table: str) -> int:
    return int(query(shop, f"select count(*) from {table}")[0][0])


def query(shop: Shop, text: str) -> list[tuple[Any, ...]]:
    from holdfast.storage.statements import Statement

    return shop.app.open().read(Op(lambda tx: tx.all(Statement("test", text, text))))


def files_of(shop: Shop) -> list[str]:
    """The bytes that are outside of any row, or in rows of their own."""
    if shop.store.backend == "postgres":
        return [row[0] for row in query(shop, "select distinct blob from holdfast_blob_part")]
    folder = Path(f"{shop.url}-artifacts")
    return sorted(os.listdir(folder)) if folder.exists() else []


async def run(shop: Shop, body: Callable[[Context], Any], **options: Any) -> Job[Any]:
    """A job that does this, brought to its end."""

    async def work(ctx: Context) -> Any:
        return await body(ctx)

    task = shop.app.task(name="work", **{"max_attempts": 1, **options})(work)
    async with shop.working():
        job = await task.aenqueue()
        await job.await_(SOON)
    return job


# -- storing and reading


@live
async def test_bytes_text_paths_and_files_are_stored_in_tasks_of_every_colour(shop: Shop, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(LARGE)

    @shop.app.task
    async def awaits(ctx: Context) -> None:
        await ctx.artifact("bytes", b"\x00\xff")
        await ctx.artifact("text", "né", "text/markdown; charset=utf-8")
        await ctx.artifact("path", source)
        with source.open("rb") as file:
            await ctx.artifact("file", file)

    @shop.app.task
    def blocks(ctx: SyncContext) -> None:
        ctx.artifact("bytes", memoryview(b"\x00\xff"))
        ctx.artifact("text", "né", "text/markdown; charset=utf-8")
        ctx.artifact("path", source)
        with source.open("rb") as file:
            ctx.artifact("file", file)

    async with shop.working():
        for task in (awaits, blocks):
            job = await task.aenqueue()
            await job.aresult(SOON)
            found = {artifact.name: artifact for artifact in await shop.app.artifacts.alist(job)}
            assert sorted(found) == ["bytes", "completion", "file", "path", "text"]
            assert found["text"].content_type == "text/markdown; charset=utf-8"
            assert found["bytes"].content_type == "application/octet-stream"
            assert await shop.app.artifacts.aread(job, "bytes") == b"\x00\xff"
            assert shop.app.artifacts.read(job, "text") == "né".encode()
            for name in ("path", "file"):
                assert shop.app.artifacts.read(job, name) == LARGE == await shop.app.artifacts.aread(job, name)
                assert found[name].sha256 == hashlib.sha256(LARGE).hexdigest()
            assert shop.app.artifacts.read(job, "completion") == b"null"


@live
async def test_a_task_in_a_process_of_its_own_stores_artifacts(
    real_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = real_shop
    monkeypatch.setenv("HOLDFAST_STORE", shop.url)
    app = shop.borrow(artifact_tasks.app)
    async with shop.working():
        for task in (artifact_tasks.stores_apart, artifact_tasks.stores_apart_async):
            job = await app.aenqueue(task.job())
            assert await job.aresult(SOON) == [4, len(LARGE)]
            assert app.artifacts.read(job, "large") == LARGE


@live
async def test_every_size_comes_back_whole_and_in_any_range(shop: Shop) -> None:
    contents = {str(n): os.urandom(n) for n in (0, 1, INLINE - 1, INLINE, INLINE + 1, PART * 2, PART * 2 + 1)}

    async def body(ctx: Context) -> None:
        for name, data in contents.items():
            await ctx.artifact(name, data)

    job = await run(shop, body)
    read = shop.app.artifacts
    assert len(files_of(shop)) == sum(len(data) > INLINE for data in contents.values())
    for name, data in contents.items():
        size = len(data)
        assert (read.get(job, name).size, read.read(job, name)) == (size, data)
        assert all(len(piece) <= PART for piece in read.open(job, name))
        ranges = [(0, 0), (0, 10), (1, None), (size, None), (size + 5, 7), (PART - 1, 2), (PART, 1), (5, size * 2)]
        for start, length in ranges:
            wanted = data[start:] if length is None else data[start : start + length]
            assert b"".join(read.open(job, name, start=start, length=length)) == wanted
            pieces = [piece async for piece in read.aopen(job, name, start=start, length=length)]
            assert b"".join(pieces) == wanted


@live
async def test_a_large_artifact_is_never_in_memory_as_a_whole(shop: Shop) -> None:
    size = 24 * 1024 * 1024

    class Zeros(io.RawIOBase):
        left = size

        def read(self, n: int = -1) -> bytes:
            n = min(n, self.left)
            self.left -= n
            return bytes(n)

    async def body(ctx: Context) -> None:
        await ctx.artifact("zeros", Zeros())  # type: ignore[arg-type]

    tracemalloc.start()
    try:
        job = await run(shop, body)
        assert sum(len(piece) for piece in shop.app.artifacts.open(job, "zeros")) == size
        assert tracemalloc.get_traced_memory()[1] < 12 * 1024 * 1024
    finally:
        tracemalloc.stop()


# -- once for all runs


@live
async def test_a_later_run_is_answered_from_the_journal_and_reads_nothing(shop: Shop) -> None:
    answers: list[Any] = []

    @shop.app.task(retry=AT_ONCE, max_attempts=3)
    async def works(ctx: Context) -> None:
        answers.append(await ctx.artifact("note", f"by attempt {ctx.attempt}"))
        answers.append(await ctx.artifact("large", LARGE if ctx.attempt == 1 else Path("/gone")))
        if ctx.attempt < 3:
            raise RuntimeError("not yet")

    async with shop.working():
        job = await works.aenqueue()
        await job.aresult(SOON)
    assert answers[:2] == answers[2:4] == answers[4:]
    assert shop.app.artifacts.read(job, "note") == b"by attempt 1"
    assert answers[0] == shop.app.artifacts.get(job, "note")
    assert len(files_of(shop)) == 1


@live
async def test_the_same_name_twice_in_one_run_is_refused_and_the_first_stays(shop: Shop) -> None:
    refused: list[Exception] = []

    async def body(ctx: Context) -> None:
        await ctx.artifact("a", "first")
        for data in ("second", LARGE):
            with pytest.raises(DuplicateArtifact) as error:
                await ctx.artifact("a", data)  # type: ignore[arg-type]
            refused.append(error.value)

        async def inside(ctx: Context) -> None:
            await ctx.artifact("a", LARGE)

        await ctx.step("inside", inside)

    job = await run(shop, body)
    assert [str(error) for error in refused] == [str(refused[0])] * 2
    assert (await job.astatus()).state == "failed"
    assert shop.app.artifacts.read(job, "a") == b"first"
    # The bytes that were written before the name was known to be taken are gone.
    assert (files_of(shop), count(shop, "holdfast_blob")) == ([], 0)


@live
async def test_a_step_that_is_tried_again_stores_its_artifact_once(shop: Shop) -> None:
    tries: list[int] = []

    async def draft(ctx: Context) -> str:
        tries.append(1)
        await ctx.artifact("draft", f"try {len(tries)}")
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return "done"

    async def body(ctx: Context) -> str:
        return await ctx.options(max_attempts=3, retry=RetryPolicy(kind="none")).step("draft", draft)

    job = await run(shop, body)
    assert await job.aresult(1) == "done"
    assert shop.app.artifacts.read(job, "draft") == b"try 1"


@live
async def test_a_handler_may_store_again_what_failed_to_be_stored(shop: Shop) -> None:
    class Broken(io.RawIOBase):
        def __init__(self) -> None:
            self.parts = [bytes(PART), bytes(PART)]

        def read(self, n: int = -1) -> bytes:
            if not self.parts:
                raise OSError(errno.EIO, "the network is gone")
            return self.parts.pop()

    async def body(ctx: Context) -> str:
        try:
            await ctx.artifact("a", Broken())  # type: ignore[arg-type]
        except OSError:
            await ctx.artifact("a", LARGE)
        return "done"

    job = await run(shop, body)
    assert await job.aresult(1) == "done"
    assert shop.app.artifacts.read(job, "a") == LARGE
    assert (len(files_of(shop)), count(shop, "holdfast_blob")) == (1, 1)


@live
async def test_a_fork_and_a_fresh_retry_each_have_their_own(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("large", LARGE)
        await ctx.step("then", str)

    job = await run(shop, body)
    fork = await shop.app.jobs.afork(job, from_step="then")
    assert await shop.app.jobs.aretry(job.id, fresh=True)
    assert [artifact.name for artifact in shop.app.artifacts.list(job)] == []
    assert shop.app.artifacts.read(fork, "large") == LARGE
    async with shop.working():
        await job.aresult(SOON)
        await fork.aresult(SOON)
    assert shop.app.artifacts.read(job, "large") == LARGE
    assert len(files_of(shop)) == 2


@live
async def test_an_inline_job_stores_nothing_and_gets_the_same_answer(small_shop: Shop) -> None:
    @small_shop.app.task
    def works(ctx: SyncContext) -> tuple[int, str | None]:
        made = ctx.artifact("large", LARGE)
        return made.size, made.sha256

    with small_shop.app.inline():
        assert works.enqueue().result() == (len(LARGE), hashlib.sha256(LARGE).hexdigest())
    assert count(small_shop, "holdfast_blob") == 0


# -- what is refused


BAD_NAMES = [
    "", " ", ".", "..", "a/b", "a\\b", "../x", "a\nb", "a\x00b", "a\u202eb", "a\u200fb", "x" * 129,
    "completion", None, 7,
]  # fmt: skip
BAD_TYPES = ["", "text", "text/", "/plain", "text/plain\r\nX: y", "text/plain; charset", "é/x", "a/b" + "x" * 300, 7]
BAD_DATA = [None, 7, ["a"], Path("/no/such/file"), Path("/"), Path("/dev/zero"), io.StringIO("text"), "\ud800"]


@live
async def test_bad_names_types_and_data_are_refused_and_leave_nothing(shop: Shop) -> None:
    async def body(ctx: Context) -> str:
        for name in BAD_NAMES:
            with pytest.raises(InvalidInput):
                await ctx.artifact(name, "x")  # type: ignore[arg-type]
        for content_type in BAD_TYPES:
            with pytest.raises(InvalidInput):
                await ctx.artifact("a", "x", content_type)  # type: ignore[arg-type]
        for data in BAD_DATA:
            with pytest.raises(InvalidInput):
                await ctx.artifact("a", data)  # type: ignore[arg-type]
        await ctx.artifact("a" * 128, "x")
        await ctx.artifact("été 😀 (1).txt", "x")
        return "done"

    job = await run(shop, body)
    assert await job.aresult(1) == "done"
    assert len(shop.app.artifacts.list(job)) == 3
    assert count(shop, "holdfast_blob") == 0


@live
async def test_bad_ranges_and_what_is_not_there_are_refused(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("a", "x")

    job = await run(shop, body)
    for wrong in ({"start": -1}, {"length": -1}, {"start": 1.5}, {"length": True}, {"start": None}):
        with pytest.raises(InvalidInput):
            shop.app.artifacts.open(job, "a", **wrong)  # type: ignore[arg-type]
    for read in (shop.app.artifacts.read, shop.app.artifacts.get, shop.app.artifacts.open):
        with pytest.raises(NotFound):
            read(job, "b")
        with pytest.raises(NotFound):
            read("nobody", "a")
        with pytest.raises(InvalidInput):
            read(job, "\n")


@live
async def test_a_run_that_lost_its_job_stores_nothing(shop: Shop) -> None:
    seen: list[Exception] = []
    began = asyncio.Event()

    @shop.app.task(max_attempts=1)
    async def works(ctx: Context) -> None:
        began.set()
        shop.alter("update holdfast_live set epoch = epoch + 1")
        for name, data in (("small", b"x"), ("large", LARGE)):
            try:
                await ctx.artifact(name, data)
            except LeaseLost as error:
                seen.append(error)

    worker = shop.worker()
    await worker.start()
    job = await works.aenqueue()
    await began.wait()
    while len(seen) < 2:
        await asyncio.sleep(0.01)
    await worker.stop(grace=0)
    assert shop.app.artifacts.list(job) == []
    assert (files_of(shop), count(shop, "holdfast_blob")) == ([], 0)


# -- the disk, and what is swept


@live
async def test_a_full_disk_is_a_typed_error_that_loses_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = 0
    room = 2
    real_file, real_part = os.write, blobs.add_part

    def no_room() -> bool:
        nonlocal writes
        writes += 1
        return writes > room

    def write(descriptor: int, data: Any) -> int:
        if no_room():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_file(descriptor, data)

    async def add_part(*args: Any) -> None:
        if no_room():
            raise StorageFull("could not extend file")
        await real_part(*args)

    monkeypatch.setattr(files.os, "write", write)
    monkeypatch.setattr(blobs, "add_part", add_part)
    left: list[object] = []

    async def body(ctx: Context) -> str:
        nonlocal room
        await ctx.artifact("before", "x")
        with pytest.raises(StorageFull) as full:
            await ctx.artifact("large", LARGE)
        left.extend([full.value.retryable, files_of(shop), count(shop, "holdfast_blob")])
        room = 1_000
        await ctx.artifact("large", LARGE)
        return "done"

    job = await run(shop, body)
    assert await job.aresult(1) == "done"
    assert left == [True, [], 0]
    assert shop.app.artifacts.read(job, "large") == LARGE


@live
async def test_the_bytes_go_after_the_job_is_deleted_and_not_before(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("large", LARGE)

    job = await run(shop, body)
    await swept(shop)
    assert len(files_of(shop)) == 1
    await shop.app.jobs.adelete(job.id)
    assert len(files_of(shop)) == 1
    await swept(shop)
    assert (files_of(shop), count(shop, "holdfast_blob")) == ([], 0)


@live
async def test_only_the_leader_sweeps_and_a_sweep_that_failed_half_way_is_finished_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: Context) -> None:
        for n in range(3):
            await ctx.artifact(f"large-{n}", LARGE)

    job = await run(shop, body)
    await shop.app.jobs.adelete(job.id)
    await ArtifactCollector(shop.app.open(), lambda: False).run_once()
    assert len(files_of(shop)) == 3

    async def fails(*args: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(blobs, "drop", fails)
        with pytest.raises(RuntimeError):
            await swept(shop)
    assert count(shop, "holdfast_blob") == 3
    await swept(shop)
    assert (files_of(shop), count(shop, "holdfast_blob")) == ([], 0)


@live
async def test_bytes_of_a_run_that_died_are_swept_and_those_of_a_live_one_are_not(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("large", _Dying())  # type: ignore[arg-type]

    await run(shop, body)
    assert count(shop, "holdfast_blob") == 1
    await swept(shop)
    assert count(shop, "holdfast_blob") == 1  # young
    shop.clock.advance(61)
    await swept(shop)
    assert (files_of(shop), count(shop, "holdfast_blob")) == ([], 0)


class _Dying(io.RawIOBase):
    """Gives some bytes, and then its run is gone in the middle of it, without a chance to clean up."""

    given = 0

    def read(self, n: int = -1) -> bytes:
        self.given += 1
        if self.given > 3:
            raise asyncio.CancelledError
        return bytes(n)


@live
async def test_files_of_which_the_database_has_never_heard_are_removed_when_they_are_old(tmp_path: Path) -> None:
    shop = Shop(str(tmp_path / "jobs.db"), None)
    folder = tmp_path / "jobs.db-artifacts"
    folder.mkdir()
    names = ["0" * 26, "1" * 26 + ".part", "2" * 26, "readme.txt"]
    two_days_ago = time.time() - 2 * 86_400
    for name in names:
        (folder / name).write_bytes(b"x")
        if not name.startswith("2"):
            os.utime(folder / name, (two_days_ago, two_days_ago))
    await ArtifactCollector(shop.app.open(), lambda: True).run_once()
    # Older than the database: they may be of one that was lost, and will be restored.
    assert sorted(os.listdir(folder)) == sorted(names)
    shop.alter("update holdfast_migration set applied_at = 0")
    await ArtifactCollector(shop.app.open(), lambda: True).run_once()
    # What is young, and what was not made here, stays.
    assert sorted(os.listdir(folder)) == ["2" * 26, "readme.txt"]
    shop.app.close()


@live
async def test_bytes_that_are_damaged_or_missing_are_an_error_and_never_an_answer(tmp_path: Path) -> None:
    shop = Shop(str(tmp_path / "jobs.db"), None)

    async def body(ctx: Context) -> None:
        await ctx.artifact("large", LARGE)

    job = await run(shop, body)
    (name,) = files_of(shop)
    file = Path(f"{shop.url}-artifacts") / name
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert oct(file.parent.stat().st_mode & 0o777) == "0o700"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"?")
    with pytest.raises(Corruption, match="not what was stored"):
        shop.app.artifacts.read(job, "large")
    file.write_bytes(data[:-1])
    with pytest.raises(Corruption, match="missing"):
        list(shop.app.artifacts.open(job, "large"))
    file.unlink()
    with pytest.raises(Corruption, match="missing"):
        shop.app.artifacts.read(job, "large")
    shop.alter("update holdfast_artifact set blob = '../../etc/passwd'")
    with pytest.raises(Corruption, match="not the name"):
        shop.app.artifacts.read(job, "large")
    shop.app.close()


@live
async def test_an_artifact_that_is_deleted_while_it_is_read_is_not_found(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("large", LARGE)

    job = await run(shop, body)
    reading = shop.app.artifacts.open(job, "large")
    assert len(next(reading)) == PART
    await shop.app.jobs.adelete(job.id)
    await swept(shop)
    with pytest.raises(NotFound):
        next(reading)


@live
async def test_a_job_that_fails_keeps_what_it_stored(shop: Shop) -> None:
    async def body(ctx: Context) -> None:
        await ctx.artifact("log", "what went wrong")
        raise Fail("no use")

    job = await run(shop, body)
    assert shop.app.artifacts.read(job, "log") == b"what went wrong"


def test_a_database_in_memory_keeps_its_blobs_in_a_table(small_shop: Shop) -> None:
    assert isinstance(small_shop.app.open().blobs, TableBlobs)


def test_dropping_the_store_removes_the_files_and_nothing_else(tmp_path: Path) -> None:
    shop = Shop(str(tmp_path / "jobs.db"), None)

    @shop.app.task
    def works(ctx: SyncContext) -> None:
        ctx.artifact("large", LARGE)

    works.enqueue()
    shop.app.drain()
    assert len(files_of(shop)) == 1
    shop.app.open().drop()
    assert not Path(f"{shop.url}-artifacts").exists()
    shop.app.close()
