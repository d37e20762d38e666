"""Tokens restricted to queues or tasks may run, enqueue, and read their jobs by id: nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import AccessDenied, NotFound
from ...model.access import Identity
from ...model.jobs import JobRecord
from ...rules.access import check_within
from .call import Call
from .operation import Operation

_OF_ONE_JOB: Final = frozenset({"read", "payload", "signal"})


async def check_operation(call: Call, operation: Operation, given: Mapping[str, Any]) -> None:
    """Reject operations that a restricted caller may not use. Workers and new jobs are checked when created."""
    if not call.identity.is_confined or operation.needs in ("nothing", "work") or operation.confines:
        return
    job_id = given.get("job_id")
    if operation.kind == "page" or operation.needs not in _OF_ONE_JOB or job_id is None:
        raise AccessDenied(
            f"a token restricted to queues or tasks cannot do this ({operation.name})",
            "it can run, enqueue, and read jobs by id; use another token for the rest",
        )
    check_job(call.identity, await call.client.jobs.aget(job_id, whole=False))


def check_job(identity: Identity, job: JobRecord) -> JobRecord:
    """Return the job; for a restricted caller, jobs of other queues or tasks do not exist."""
    try:
        check_within("queue", job.queue, identity.queues)
        check_within("task", job.task, identity.tasks)
    except AccessDenied:
        raise NotFound("job", job.id) from None
    return job
