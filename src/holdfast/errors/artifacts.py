"""Refused artifacts."""

from __future__ import annotations

from .root import Conflict


class DuplicateArtifact(Conflict):
    """The job already has an artifact of that name, which is unchanged."""

    code = "duplicate_artifact"

    def __init__(self, job_id: str, name: str) -> None:
        self.job_id = job_id
        self.name = name
        super().__init__(f"job {job_id} has an artifact {name!r} already; give each a name of its own")
