"""Stores what a run leaves behind. First the bytes, then one commit that makes an artifact of them."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from ..clock import SYSTEM_CLOCK
from ..errors import DuplicateArtifact, HoldfastError, OutcomeUnknown
from ..ids import ids
from ..model.artifact import INLINE, PART, Artifact, Content
from ..model.step import Step
from ..rules.artifacts import check_artifact_name, check_content_type
from ..rules.replay import Call
from ..storage.blobs import PATIENCE, Reach, remove_all
from ..storage.ops import artifacts, blobs
from ..storage.port import Op, Tx
from .calls import Durable, entry_of
from .place import Place, place_of
from .sources import Source, source_of, type_of

logger: Final = logging.getLogger("holdfast.job")


def artifact(durable: Durable, name: object, data: object, content_type: object) -> Coroutine[Any, Any, Artifact]:
    """Store named bytes, once for all runs of the job."""
    named = check_artifact_name(name)
    kind = check_content_type(type_of(data) if content_type is None else content_type)
    source = source_of(data)
    # By name alone: a step that is tried again stores nothing twice.
    call = replace(durable.number("artifact", named, ""), nth=1)
    return _artifact(durable, call, named, kind, source)


async def _artifact(durable: Durable, call: Call, name: str, content_type: str, source: Source) -> Artifact:
    place = place_of(durable)
    if durable.stored.get(call.key) is place:
        raise DuplicateArtifact(durable.info.id, name)
    found = await durable.find(call)
    if found is None:
        found = await _Storing(durable, call, name, content_type, source).run()
    _remember(durable, call, place, found)
    return artifacts.stored_as(found)


def _remember(durable: Durable, call: Call, place: Place, found: Step) -> None:
    """Only what is stored: a handler may try again after an error."""
    durable.stored[call.key] = place
    durable.keep(found)


class _Storing:
    """One artifact on its way."""

    def __init__(self, durable: Durable, call: Call, name: str, content_type: str, source: Source) -> None:
        self._durable = durable
        self._entry = entry_of(call, None)
        self._name = name
        self._content_type = content_type
        self._source = source
        self._first = b""

    async def run(self) -> Step:
        reach = self._durable.hands.reach()
        try:
            # One byte more than fits into a row tells whether there are more.
            self._first = await reach.run(self._source.read, INLINE + 1)
            if self._durable.is_inline:
                return await self._measure(reach)
            if len(self._first) <= INLINE:
                return (await self._record(reach, self._content(data=self._first)))[0]
            return await self._as_blob(reach)
        finally:
            self._source.close()

    async def _measure(self, reach: Reach) -> Step:
        """A job that is nowhere stored keeps nothing, but what it gives is read all the same."""
        while await reach.run(self._source.read, PART):
            pass
        size, sha256 = self._source.size, self._source.sha256
        made = Artifact(self._durable.info.id, self._name, self._content_type, size, sha256, 0)
        return replace(self._entry, value=artifacts.as_text(made), ended_at=SYSTEM_CLOCK.now())

    async def _as_blob(self, reach: Reach) -> Step:
        info, blob = self._durable.info, ids.new()
        await reach.write(
            Op(lambda tx: blobs.begin(tx, info.worker, info.id, info.epoch, blob), single=True),
        )
        try:
            await reach.store.blobs.write(reach, blob, lambda: self._more(reach))
            recorded, is_new = await self._record(reach, self._content(blob=blob))
        except OutcomeUnknown:
            raise  # It may well be kept. If not, the sweeper finds it.
        except Exception:
            await _discard(reach, blob)
            raise
        if not is_new:
            await _discard(reach, blob)
        return recorded

    async def _more(self, reach: Reach) -> bytes:
        """The next part: what was read ahead, then from the source."""
        self._durable.check()
        part, self._first = self._first[:PART], self._first[PART:]
        if len(part) < PART:
            part += await reach.run(self._source.read, PART - len(part))
        return part

    async def _record(self, reach: Reach, content: Content) -> tuple[Step, bool]:
        info, entry = self._durable.info, self._entry

        async def add(tx: Tx) -> tuple[Step, bool]:
            return await artifacts.add(tx, info.worker, info.id, info.epoch, entry, content)

        return await reach.write(Op(add))

    def _content(self, **where: Any) -> Content:
        return Content(self._name, self._content_type, self._source.size, self._source.sha256, **where)


async def _discard(reach: Reach, blob: str) -> None:
    """Remove a blob of which nothing was made, now rather than by the sweeper: the disk may be full of it."""
    try:
        await reach.write(Op(lambda tx: blobs.doom(tx, [blob]), patience=PATIENCE))
        await remove_all(reach, [blob])
    except HoldfastError as error:
        logger.warning("bytes that were not stored could not be removed (%s); the sweeper will", error)
