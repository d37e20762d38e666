"""Named bytes of a job: stored by the run that owns it, readable by any client, deleted with the job.

The schema deletes them with the job, whichever way it is deleted. See the migration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace

from ....errors import DuplicateArtifact, NotFound
from ....model.artifacts import COMPLETION, Artifact, Content, Stored
from ....model.steps import Step
from ....model.values import instant_of, is_reference, reference_of
from ...port import Row, Tx
from ...statements import sql
from .. import steps


async def add(tx: Tx, owner: str, job_id: str, epoch: int, step: Step, content: Content) -> tuple[Step, bool]:
    """Store an artifact and its journal entry, both or neither. LeaseLost for any run but the owner.

    Returns the entry, and whether it is new: where it existed already, nothing is stored.
    """
    if before := await steps.find(tx, job_id, step.key):
        return before, False
    # First, because it checks who owns the job, and locks it until the commit.
    entry = replace(step, value=as_text(job_id, content))
    recorded = await steps.record(tx, owner, job_id, epoch, entry)
    row = await tx.one(
        sql.add_artifact,
        job_id=job_id,
        name=content.name,
        key=step.key,
        content_type=content.content_type,
        size=content.size,
        sha256=content.sha256,
        epoch=epoch,
        created_at=recorded.ended_at,
        blob=content.blob,
        data=content.data,
    )
    if row is None:
        raise DuplicateArtifact(job_id, content.name)
    return recorded, True


def as_text(job_id: str, content: Content) -> str:
    """Return the value of an artifact's journal entry."""
    return json.dumps({
        "job_id": job_id, "name": content.name, "content_type": content.content_type, "size": content.size,
        "sha256": content.sha256,
    })  # fmt: skip


def stored_as(step: Step) -> Artifact:
    """Return the artifact that a journal entry stands for."""
    return Artifact(**json.loads(step.value or "{}"), created_at=instant_of(step.ended_at))


async def list_(tx: Tx, job_id: str) -> list[Artifact]:
    """List a job's artifacts by name, its result first."""
    result = await _completion(tx, job_id)
    named = [_artifact(job_id, row) for row in await tx.all(sql.artifacts_of, job_id=job_id)]
    return [result.artifact, *named] if result else named


async def get(tx: Tx, job_id: str, name: str) -> Artifact:
    """Return an artifact without its bytes."""
    return (await _find(tx, job_id, name)).artifact


async def locate(tx: Tx, job_id: str, name: str) -> Stored:
    """Return an artifact with its bytes, or the name of the blob that has them."""
    found = await _find(tx, job_id, name)
    if found.data is not None or found.blob is not None:
        return found
    row = await tx.one(sql.artifact_data, job_id=job_id, name=name)
    return replace(found, data=bytes(row[0]) if row else b"")


async def remove(tx: Tx, ids: Collection[str]) -> None:
    """Delete every artifact of jobs that stay; their next run stores them again."""
    if ids:
        gone = json.dumps(list(ids))
        await tx.one(sql.remove_artifacts, ids=gone)
        await tx.one(sql.forget_stored, ids=gone)


async def _find(tx: Tx, job_id: str, name: str) -> Stored:
    if name == COMPLETION:
        found = await _completion(tx, job_id)
        if found is not None:
            return found
    elif row := await tx.one(sql.artifact_of, job_id=job_id, name=name):
        return Stored(_artifact(job_id, row[:5]), blob=row[5])
    else:
        await _completion(tx, job_id)
    raise NotFound(f"artifact of job {job_id}", name)


async def _completion(tx: Tx, job_id: str) -> Stored | None:
    """Return the result as an artifact, if the job has one. NotFound where there is no job."""
    row = await tx.one(sql.completion_of, job_id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    if row[0] is None:
        return None
    if is_reference(row[0]):
        kept = reference_of(row[0])
        facts = COMPLETION, "application/json", kept.size, kept.sha256, row[1]
        return Stored(_artifact(job_id, facts), blob=kept.blob)
    data = row[0].encode()
    digest = hashlib.sha256(data).hexdigest()
    return Stored(_artifact(job_id, (COMPLETION, "application/json", len(data), digest, row[1])), data=data)


def _artifact(job_id: str, row: Row) -> Artifact:
    name, content_type, size, sha256, created_at = row
    return Artifact(job_id, name, content_type, size, sha256, instant_of(created_at))
