"""Jobs and workers as JSON. The field names are those of `holdfast.shapes`, and stable."""

from __future__ import annotations

from typing import Any

from ..model.artifacts import Artifact
from ..model.jobs import Attempt, Demands, JobRecord
from ..model.workers import Worker
from ..shapes.jobs import error_line as error_line
from ..shapes.jobs import of_job, of_job_brief, with_artifacts
from ..shapes.values import decoded as decoded
from ..shapes.workers import of_worker
from .output import plain


def job_brief(job: JobRecord) -> dict[str, Any]:
    """Return a job for a list: without arguments and result, which may be large."""
    return plain(of_job_brief(job))


def job_whole(job: JobRecord, attempts: list[Attempt], demands: Demands, artifacts: list[Artifact]) -> dict[str, Any]:
    """Return a job with all its details."""
    return plain(with_artifacts(of_job(job, attempts, demands), artifacts))


def worker_data(worker: Worker) -> dict[str, Any]:
    return plain(of_worker(worker))
