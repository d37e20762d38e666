"""Store the artifacts of a run: first the bytes, then one commit that records the artifact."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import re
import stat
from collections.abc import Callable, Coroutine
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeAlias

from ..clock import SYSTEM_CLOCK
from ..errors import DuplicateArtifact, HoldfastError, InvalidInput, OutcomeUnknown
from ..ids import ids
from ..model.artifacts import INLINE, PART, Artifact, Content
from ..model.steps import Step
from ..rules.artifacts import check_artifact_name, check_content_type
from ..rules.steps import Call
from ..storage.blobs import PATIENCE, Reach, remove_all
from ..storage.ops.artifacts import artifacts, blobs
from ..storage.port import Op, Tx
from ..tasks.context import JobInfo
from .calls import Durable, ending, entry_of
from .journal import CallSite, site_of

logger: Final = logging.getLogger("holdfast.job")
TEXT: Final = "text/plain; charset=utf-8"
_LONGEST_PATH: Final = 1_024
_PATH: Final = re.compile(r"(?!\w+://)\S*/\S*\.[A-Za-z]\w{0,4}")
BINARY: Final = "application/octet-stream"


def artifact(durable: Durable, name: object, data: object, content_type: object) -> Coroutine[Any, Any, Artifact]:
    """Store named bytes, once for all runs of the job."""
    named = check_artifact_name(name)
    kind = check_content_type(type_of(data) if content_type is None else content_type)
    check_not_a_path(named, data)
    source = artifact_data(data)
    # By name alone: a retried step stores nothing twice.
    call = replace(durable.number("artifact", named, ""), nth=1)
    return _artifact(durable, call, named, kind, source)


@ending
async def _artifact(durable: Durable, call: Call, name: str, content_type: str, source: ArtifactData) -> Artifact:
    site = site_of(durable)
    if durable.stored.get(call.key) is site:
        raise DuplicateArtifact(durable.info.id, name)
    found = await durable.find(call)
    if found is None:
        storing = Storing(durable.info, durable.io.reach(), entry_of(call, None), source, durable.check)
        found = await storing.run(name, content_type)
    _remember(durable, call, site, found)
    return artifacts.stored_as(found)


def _remember(durable: Durable, call: Call, site: CallSite, found: Step) -> None:
    """Remember an artifact once it is stored: a handler may try again after an error."""
    durable.stored[call.key] = site
    durable.keep(found)


class Storing:
    """An artifact that is being stored. `check` is called between its parts, and raises if the run is over."""

    def __init__(
        self, info: JobInfo, reach: Reach, entry: Step, source: ArtifactData, check: Callable[[], None]
    ) -> None:
        self._info = info
        self._reach = reach
        self._entry = entry
        self._source = source
        self._check = check
        self._name = self._content_type = ""
        self._first = b""

    async def run(self, name: str, content_type: str) -> Step:
        """Return the journal entry of the stored artifact: this one, or the one stored under its key before."""
        self._name, self._content_type = name, content_type
        try:
            # Reading one byte more than fits into a row shows whether there are more.
            self._first = await self._reach.run(self._source.read, INLINE + 1)
            if not self._info.worker:
                return await self._measure()
            if len(self._first) <= INLINE:
                return (await self._record(self._content(data=self._first)))[0]
            return await self._as_blob()
        finally:
            self._source.close()

    async def _measure(self) -> Step:
        """Read the data without keeping it: an inline job is not stored."""
        while await self._reach.run(self._source.read, PART):
            pass
        size, sha256 = self._source.size, self._source.sha256
        made = Content(self._name, self._content_type, size, sha256)
        return replace(self._entry, value=artifacts.as_text(self._info.id, made), ended_at=SYSTEM_CLOCK.now())

    async def _as_blob(self) -> Step:
        info, reach, blob = self._info, self._reach, ids.new()
        await reach.write(
            Op(lambda tx: blobs.begin(tx, info.worker, info.id, info.epoch, blob), single=True),
        )
        try:
            await reach.store.blobs.write(reach, blob, self._more)
            recorded, is_new = await self._record(self._content(blob=blob))
        except OutcomeUnknown:
            raise  # The commit may have succeeded. If not, the garbage collection of artifacts removes the bytes.
        except Exception:
            await _discard(reach, blob)
            raise
        if not is_new:
            await _discard(reach, blob)
        return recorded

    async def _more(self) -> bytes:
        """Return the next part: what was read ahead, then from the source."""
        self._check()
        part, self._first = self._first[:PART], self._first[PART:]
        if len(part) < PART:
            part += await self._reach.run(self._source.read, PART - len(part))
        return part

    async def _record(self, content: Content) -> tuple[Step, bool]:
        info, entry = self._info, self._entry

        async def add(tx: Tx) -> tuple[Step, bool]:
            return await artifacts.add(tx, info.worker, info.id, info.epoch, entry, content)

        return await self._reach.write(Op(add))

    def _content(self, **where: Any) -> Content:
        return Content(self._name, self._content_type, self._source.size, self._source.sha256, **where)


async def _discard(reach: Reach, blob: str) -> None:
    """Remove a blob that belongs to no artifact, now rather than by garbage collection: the disk may be full."""
    try:
        await reach.write(Op(lambda tx: blobs.doom(tx, [blob]), patience=PATIENCE))
        await remove_all(reach, [blob])
    except HoldfastError as error:
        logger.warning("an unused blob could not be removed (%s); the garbage collection will remove it", error)


class Readable(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


Data: TypeAlias = "bytes | bytearray | memoryview | str | os.PathLike[str] | Readable"


class ArtifactData:
    """The data as a handler gives it: bytes, text, a file by its path, or an open file.

    Read once, from beginning to end, which blocks; its size and hash are computed meanwhile.
    """

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


def artifact_data(data: object) -> ArtifactData:
    """Return the source of some data; InvalidInput if nothing can be read from it."""
    if isinstance(data, str):
        text = data
        return ArtifactData(lambda: BytesIO(_encoded(text)), ours=True)
    if isinstance(data, (bytes, bytearray, memoryview)):
        content = bytes(data)
        return ArtifactData(lambda: BytesIO(content), ours=True)
    if isinstance(data, os.PathLike):
        path = Path(os.fspath(data))
        return ArtifactData(lambda: _opened(path), ours=True)
    if not callable(getattr(data, "read", None)):
        kind = type(data).__qualname__
        raise InvalidInput(f"an artifact is made of bytes, text, a path or an open file, not of {kind}")
    file: Any = data
    return ArtifactData(lambda: file, ours=False)


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
