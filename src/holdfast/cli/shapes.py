"""Jobs and workers as JSON for programs. The names are those of `holdfast.shapes`, and a promise."""

from __future__ import annotations

from typing import Any

from ..model.artifact import Artifact
from ..model.job import Attempt, Demands, JobRecord
from ..model.worker import Worker
from ..shapes.jobs import error_line as error_line
from ..shapes.jobs import of_job, of_job_brief, with_artifacts
from ..shapes.values import decoded as decoded
from ..shapes.workers import of_worker
from .output import plain


def job_brief(job: JobRecord) -> dict[str, Any]:
    """A job in a list: without its arguments and its result, which may be large."""
    return plain(of_job_brief(job))


def job_whole(job: JobRecord, attempts: list[Attempt], demands: Demands, artifacts: list[Artifact]) -> dict[str, Any]:
    """Everything about a job."""
    return plain(with_artifacts(of_job(job, attempts, demands), artifacts))


def worker_data(worker: Worker) -> dict[str, Any]:
    return plain(of_worker(worker))
