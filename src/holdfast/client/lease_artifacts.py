"""Artifacts of runs elsewhere, stored as those of our own are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..context import JobInfo
from ..durable.artifacts import Storing
from ..durable.sources import Source, source_of, type_of
from ..errors import DuplicateArtifact
from ..model.artifact import PART, Artifact
from ..model.step import Step
from ..rules.artifacts import check_artifact_name, check_content_type
from ..rules.handles import Lease
from ..rules.replay import key_of
from ..storage.blobs import Reach
from ..storage.ops import artifacts, lending, steps
from ..storage.port import Op, Tx


async def store_artifact(reach: Reach, lease: Lease, name: object, data: Any, content_type: object) -> Artifact:
    """Store named bytes once. Under the name of others it is a DuplicateArtifact."""
    named = check_artifact_name(name)
    kind = check_content_type(type_of(data) if content_type is None else content_type)
    source = source_of(data)
    entry, found = await reach.read(Op(lambda tx: _find(tx, lease, named)))
    if found is None:
        found = await Storing(_info(lease), reach, entry, source, _go_on).run(named, kind)
    else:
        await _measure(reach, source)
    made = artifacts.stored_as(found)
    if (made.size, made.sha256, made.content_type) != (source.size, source.sha256, kind):
        raise DuplicateArtifact(lease.job_id, named)
    return made


async def _find(tx: Tx, lease: Lease, name: str) -> tuple[Step, Step | None]:
    """The entry to write, and the one that is there."""
    entry = Step(key=key_of("artifact", name, 1), kind="artifact", name=name)
    return await lending.placed(tx, lease.job_id, entry), await steps.find(tx, lease.job_id, entry.key)


async def _measure(reach: Reach, source: Source) -> None:
    """What was stored before is compared with what is given now."""
    try:
        while await reach.run(source.read, PART):
            pass
    finally:
        source.close()


def _info(lease: Lease) -> JobInfo:
    return replace(
        _NOBODY, id=lease.job_id, attempt=lease.attempt, generation=lease.generation, epoch=lease.epoch,
        worker=lease.worker,
    )  # fmt: skip


def _go_on() -> None:
    """Nobody here can tell that the run is over; the store will."""


_NOBODY = JobInfo(id="", task="", queue="", tenant="", attempt=0, max_attempts=0, generation=0, epoch=0, created_at=0)
