"""A token that is confined to queues or tasks may work, enqueue, and read its jobs by their ids: nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import AccessDenied, NotFound
from ...model.access import Identity
from ...model.job import JobRecord
from ...rules.access import check_within
from .call import Call
from .operation import Operation

_OF_ONE_JOB: Final = frozenset({"read", "payload", "signal"})


async def check_operation(call: Call, operation: Operation, given: Mapping[str, Any]) -> None:
    """Refuse what a confined caller may not ask for. Workers and new jobs are checked where they are made."""
    if not call.identity.is_confined or operation.needs in ("nothing", "work") or operation.confines:
        return
    job_id = given.get("job_id")
    if operation.kind == "page" or operation.needs not in _OF_ONE_JOB or job_id is None:
        raise AccessDenied(
            f"a token that is confined to queues or tasks cannot do this ({operation.name})",
            "it may work, enqueue, and read its jobs by their ids; use another token for the rest",
        )
    check_job(call.identity, await call.client.jobs.aget(job_id, whole=False))


def check_job(identity: Identity, job: JobRecord) -> JobRecord:
    """The job; for a confined caller one of another queue or task does not exist."""
    try:
        check_within("queue", job.queue, identity.queues)
        check_within("task", job.task, identity.tasks)
    except AccessDenied:
        raise NotFound("job", job.id) from None
    return job
