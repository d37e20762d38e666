"""Artifacts of jobs, without their bytes."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..model.artifacts import Artifact as ArtifactRecord
from .values import instant_of


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact. The result of a job that succeeded is one of them, named `completion`.

    `sha256` is null where the caller may not see payloads: it would tell whether a guess is right.
    """

    job_id: str
    name: str
    content_type: str
    size: int
    sha256: str | None
    created_at: datetime | None


def of_artifact(artifact: ArtifactRecord, *, payload: bool = True) -> Artifact:
    return Artifact(
        job_id=artifact.job_id,
        name=artifact.name,
        content_type=artifact.content_type,
        size=artifact.size,
        sha256=artifact.sha256 if payload else None,
        created_at=instant_of(artifact.created_at),
    )
