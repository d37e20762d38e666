"""What jobs have left behind: `app.artifacts`. Each method has an awaiting twin."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ..errors import Corruption, NotFound
from ..handle import Job
from ..model.artifact import Artifact, Stored
from ..names import check_name
from ..rules.artifacts import check_range, pieces
from ..storage.blobs import Awaiting, Blocking, Reach
from ..storage.ops import artifacts
from ..storage.port import Op, Store
from ..storage.step import step
from .scope import EVERYTHING, Scope

Which = Job[Any] | str
Listed = list[Artifact]


class Artifacts:
    """The artifacts of an app's jobs. The result of a job that succeeded is one of them, named `completion`."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING) -> None:
        self._store = store
        self._scope = scope

    def list(self, job: Which) -> Listed:
        """What a job has stored, without the bytes: first its result, then by name."""
        return self._store().read(self._list(job))

    async def alist(self, job: Which) -> Listed:
        return await self._store().aread(self._list(job))

    def get(self, job: Which, name: str) -> Artifact:
        """One of them, without its bytes. NotFound if there is none."""
        return self._store().read(self._get(job, name))

    async def aget(self, job: Which, name: str) -> Artifact:
        return await self._store().aread(self._get(job, name))

    def read(self, job: Which, name: str) -> bytes:
        """All its bytes at once. Corruption where they are not those that were stored."""
        found = self._store().read(self._locate(job, name))
        return _checked(found.artifact, b"".join(self._pieces(found, 0, None)))

    async def aread(self, job: Which, name: str) -> bytes:
        found = await self._store().aread(self._locate(job, name))
        return _checked(found.artifact, b"".join([piece async for piece in self._apieces(found, 0, None)]))

    def open(self, job: Which, name: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Its bytes, or `length` of them from `start` on, piece by piece: at most 256 KiB are in memory at once."""
        start, length = check_range(start, length)
        return self._pieces(self._store().read(self._locate(job, name)), start, length)

    async def aopen(self, job: Which, name: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        start, length = check_range(start, length)
        found = await self._store().aread(self._locate(job, name))
        async for piece in self._apieces(found, start, length):
            yield piece

    def _pieces(self, found: Stored, start: int, length: int | None) -> Iterator[bytes]:
        reach = Blocking(self._store)
        for offset, size in pieces(found.artifact.size, start, length):
            yield step(_piece(reach, found, offset, size))

    async def _apieces(self, found: Stored, start: int, length: int | None) -> AsyncIterator[bytes]:
        reach = Awaiting(self._store)
        for offset, size in pieces(found.artifact.size, start, length):
            yield await _piece(reach, found, offset, size)

    def _list(self, job: Which) -> Op[Listed]:
        job_id = _id(job)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.list_(tx, job_id)))

    def _get(self, job: Which, name: str) -> Op[Artifact]:
        job_id, name = _id(job), check_name("the artifact's name", name)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.get(tx, job_id, name)))

    def _locate(self, job: Which, name: str) -> Op[Stored]:
        job_id, name = _id(job), check_name("the artifact's name", name)
        return self._scope.sees(job_id, Op(lambda tx: artifacts.locate(tx, job_id, name)))


async def _piece(reach: Reach, found: Stored, offset: int, size: int) -> bytes:
    if found.data is not None:
        data = found.data[offset : offset + size]
    else:
        data = await reach.store.blobs.read(reach, found.blob or "", offset, size) or b""
    if len(data) == size:
        return data
    # Either it was removed meanwhile, which is no fault, or it is damaged.
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
