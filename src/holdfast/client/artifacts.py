"""The artifacts of jobs: `app.artifacts`. Each method has an async version."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

from ..errors import Corruption, NotFound
from ..model.artifacts import Artifact, Stored
from ..names import check_name
from ..rules.artifacts import check_range, pieces
from ..storage.blobs import Reach
from ..storage.ops.artifacts import artifacts
from ..storage.port import Op, Store
from ..tasks.job import Job
from .calls import composed, reads
from .lines import AwaitingLine, BlockingLine, Line, each
from .scope import EVERYTHING, Scope

Which = Job[Any] | str
Listed = list[Artifact]


class Artifacts:
    """The artifacts of an app's jobs. The result of a job that succeeded is one of them, named `completion`."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING) -> None:
        self._store = store
        self._scope = scope

    @reads
    def list(self, job: Which) -> Op[Listed]:
        """Return the artifacts of a job, without the bytes: first its result, then by name."""
        job_id = _id(job)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.list_(tx, job_id)))

    alist = list.awaiting

    @reads
    def get(self, job: Which, name: str) -> Op[Artifact]:
        """Return one artifact, without its bytes. NotFound if there is none."""
        job_id, name = _id(job), check_name("the artifact's name", name)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.get(tx, job_id, name)))

    aget = get.awaiting

    @composed
    async def read(self, line: Line, job: Which, name: str) -> bytes:
        """Return all its bytes at once. Corruption if they are not those that were stored."""
        found = await line.read(self._locate(job, name))
        return _checked(found.artifact, b"".join([piece async for piece in _pieces(line, found, 0, None)]))

    aread = read.awaiting

    def open(self, job: Which, name: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Iterate over its bytes, or `length` of them from `start` on, in pieces of at most 256 KiB."""
        start, length = check_range(start, length)
        found = self._store().read(self._locate(job, name))
        return each(_pieces(BlockingLine(self._store), found, start, length))

    async def aopen(self, job: Which, name: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The async version of `open`: `async for piece in …`."""
        start, length = check_range(start, length)
        found = await self._store().aread(self._locate(job, name))
        async for piece in _pieces(AwaitingLine(self._store), found, start, length):
            yield piece

    def _locate(self, job: Which, name: str) -> Op[Stored]:
        job_id, name = _id(job), check_name("the artifact's name", name)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.locate(tx, job_id, name)))


async def _pieces(reach: Reach, found: Stored, start: int, length: int | None) -> AsyncGenerator[bytes, None]:
    for offset, size in pieces(found.artifact.size, start, length):
        yield await _piece(reach, found, offset, size)


async def _piece(reach: Reach, found: Stored, offset: int, size: int) -> bytes:
    if found.data is not None:
        data = found.data[offset : offset + size]
    else:
        data = await reach.store.blobs.read(reach, found.blob or "", offset, size) or b""
    if len(data) == size:
        return data
    # It was either removed meanwhile, which is not an error, or damaged.
    job_id, name = found.artifact.job_id, found.artifact.name
    now = await reach.read(Op(lambda tx: artifacts.locate(tx, job_id, name)))
    if now.blob != found.blob:
        raise NotFound(f"artifact of job {job_id}", name)
    raise Corruption(
        f"bytes of artifact {name!r} of job {job_id} are missing; restore them from a backup",
        backend=reach.store.backend,
    )


def _checked(artifact: Artifact, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise Corruption(f"artifact {artifact.name!r} of job {artifact.job_id} is not what was stored")
    return data


def _id(job: Which) -> str:
    return check_name("the id", job.id if isinstance(job, Job) else job)
