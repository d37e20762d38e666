"""Remote workers: register, claim jobs, renew the lease and report outcomes."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from ...client.remote import Leases
from ...model.remote import LONGEST_WAIT, MOST_CLAIMED, AnyEnding, Beaten, Caller, Finished, LeasedJob, Registered
from ..wire.call import Call
from ..wire.operation import Group
from .types import Name, QueueName

group = Group(
    "Work",
    "Workers in any language. They get the jobs of every tenant, so a token of one tenant cannot work. A worker "
    "belongs to the token that registered it: with another, its calls are refused and audited. "
    "A handle names one run of one job: it is passed back in the body, exactly as a claim gave it.",
)

_MOST: Final = 1_000
Handle: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=640, description="As returned by the claim.")]
_Names: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=_MOST)]
_Queues: TypeAlias = Annotated[list[QueueName], msgspec.Meta(min_length=1, max_length=_MOST)]
_Words: TypeAlias = Annotated[list[QueueName], msgspec.Meta(max_length=256)]


class Registering(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker's tasks and queues, in order of preference, and its concurrency."""

    name: Name
    queues: _Queues
    tasks: _Names
    capabilities: _Words = []
    resident: _Words = []
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    lease: Annotated[float, msgspec.Meta(ge=2, le=3600)] = 30.0
    versions: Annotated[dict[Name, Name], msgspec.Meta(max_length=_MOST)] = {}
    host: Annotated[str, msgspec.Meta(max_length=128)] = ""
    client: Annotated[str, msgspec.Meta(max_length=128)] = ""


class Beating(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker, and its current runs."""

    worker: Name
    handles: Annotated[list[Handle], msgspec.Meta(max_length=10_000)] = []


class Claiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The maximum number of jobs. Repeating a `claim_id` returns the same jobs."""

    worker: Name
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_CLAIMED)] = 1
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the first one.")] = 0.0
    claim_id: Name | None = None


class Finishing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The outcome of a run."""

    handle: Handle
    end: AnyEnding


class Leaving(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker that shuts down."""

    worker: Name


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that may start now; none if none came in time."""

    jobs: list[LeasedJob]


class HandedBack(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs that a worker still held when it left."""

    worker: str
    released: int


@group.post("/work/register", needs="work", status=201)
async def register_worker(call: Call, body: Registering) -> Registered:
    """Register a worker."""
    return await leases_of(call).aregister(**msgspec.structs.asdict(body))


@group.post("/work/beat", needs="work", bulk=True)
async def beat(call: Call, body: Beating) -> Beaten:
    """Renew a worker's lease.

    The worker should stop runs that are `cancelled` or `lost`. 409 `lease_lost` if the worker itself was marked lost:
    it stops all its runs and registers again.
    """
    return await leases_of(call).abeat(body.worker, body.handles)


@group.post("/work/claim", needs="work")
async def claim_jobs(call: Call, body: Claiming) -> Claimed:
    """Claim jobs, as far as the worker has free slots and limits allow. Also renews the lease."""
    jobs = await leases_of(call).aclaim(body.worker, body.limit, wait=body.wait, claim_id=body.claim_id)
    return Claimed(jobs=jobs)


@group.post("/work/finish", needs="work")
async def finish_run(call: Call, body: Finishing) -> Finished:
    """Report the outcome of a run.

    Repeated after a lost response, it returns `again`. 409 `lease_lost` if the run no longer holds the job.
    """
    return await leases_of(call).afinish(body.handle, body.end)


@group.post("/work/deregister", needs="work")
async def deregister_worker(call: Call, body: Leaving) -> HandedBack:
    """Deregister a worker. Its jobs are released without using an attempt."""
    return HandedBack(worker=body.worker, released=await leases_of(call).aderegister(body.worker))


def leases_of(call: Call) -> Leases:
    """Return the lease API of the whole store, restricted to the caller's own workers."""
    caller = Caller(call.identity.holder, call.actor, call.identity.queues, call.identity.tasks)
    return call.whole("the lease API").remote._of(caller)
