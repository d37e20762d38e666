"""Jobs: enqueue, find, look at, act on."""

from __future__ import annotations

from ...shapes.jobs import Job, of_job
from ..wire.call import Call
from ..wire.operation import Group

group = Group("Jobs", "Work that is stored before it is done.")


@group.get("/jobs/{job_id}", needs="read")
async def get_job(call: Call, job_id: str) -> Job:
    """One job, with all that is known of it."""
    jobs = call.client.jobs
    return of_job(await jobs.aget(job_id), await jobs.aattempts(job_id), payload=call.may("payload"))
