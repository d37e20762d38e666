"""Store the artifacts of a run: first the bytes, then one commit that records the artifact."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from ..clock import SYSTEM_CLOCK
from ..errors import DuplicateArtifact, HoldfastError, OutcomeUnknown
from ..ids import ids
from ..model.artifacts import INLINE, PART, Artifact, Content
from ..model.steps import Step
from ..rules.artifacts import check_artifact_name, check_content_type
from ..rules.steps import Call
from ..storage.blobs import PATIENCE, Reach, remove_all
from ..storage.ops.artifacts import artifacts, blobs
from ..storage.port import Op, Tx
from ..tasks.context import JobInfo
from .calls import Durable, entry_of
from .place import Place, place_of
from .sources import Source, check_not_a_path, source_of, type_of

logger: Final = logging.getLogger("holdfast.job")


def artifact(durable: Durable, name: object, data: object, content_type: object) -> Coroutine[Any, Any, Artifact]:
    """Store named bytes, once for all runs of the job."""
    named = check_artifact_name(name)
    kind = check_content_type(type_of(data) if content_type is None else content_type)
    check_not_a_path(named, data)
    source = source_of(data)
    # By name alone: a retried step stores nothing twice.
    call = replace(durable.number("artifact", named, ""), nth=1)
    return _artifact(durable, call, named, kind, source)


async def _artifact(durable: Durable, call: Call, name: str, content_type: str, source: Source) -> Artifact:
    place = place_of(durable)
    if durable.stored.get(call.key) is place:
        raise DuplicateArtifact(durable.info.id, name)
    found = await durable.find(call)
    if found is None:
        storing = Storing(durable.info, durable.io.reach(), entry_of(call, None), source, durable.check)
        found = await storing.run(name, content_type)
    _remember(durable, call, place, found)
    return artifacts.stored_as(found)


def _remember(durable: Durable, call: Call, place: Place, found: Step) -> None:
    """Remember an artifact once it is stored: a handler may try again after an error."""
    durable.stored[call.key] = place
    durable.keep(found)


class Storing:
    """An artifact that is being stored. `check` is called between its parts, and raises if the run is over."""

    def __init__(self, info: JobInfo, reach: Reach, entry: Step, source: Source, check: Callable[[], None]) -> None:
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
