"""Work: a worker elsewhere registers, claims jobs, keeps its lease by beats, and says how each run ended."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from ...client.remote import Leases
from ...model.lease import LONGEST_WAIT, MOST_CLAIMED, AnyEnding, Caller
from ...shapes.work import (
    Beat,
    Claimed,
    HandedBack,
    RunEnded,
    WorkerRegistered,
    of_beaten,
    of_finished,
    of_leased,
    of_registered,
)  # fmt: skip
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
Handle: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=640, description="As a claim gave it.")]
_Names: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=_MOST)]
_Queues: TypeAlias = Annotated[list[QueueName], msgspec.Meta(min_length=1, max_length=_MOST)]
_Words: TypeAlias = Annotated[list[QueueName], msgspec.Meta(max_length=256)]


class Registering(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which tasks of which queues, in that order, a worker runs, and how many at once."""

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
    """A worker, and the runs that it has."""

    worker: Name
    handles: Annotated[list[Handle], msgspec.Meta(max_length=10_000)] = []


class Claiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """At most so many jobs. One that is repeated with its `claim_id` gives what it took before."""

    worker: Name
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_CLAIMED)] = 1
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the first one.")] = 0.0
    claim_id: Name | None = None


class Finishing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a run ended."""

    handle: Handle
    end: AnyEnding


class Leaving(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker that goes."""

    worker: Name


@group.post("/work/register", needs="work", status=201)
async def register_worker(call: Call, body: Registering) -> WorkerRegistered:
    """Make a worker known."""
    return of_registered(await leases_of(call).aregister(**msgspec.structs.asdict(body)))


@group.post("/work/beat", needs="work", bulk=True)
async def beat(call: Call, body: Beating) -> Beat:
    """Renew a worker's lease.

    It should stop what is `cancelled` or `lost`. 409 `lease_lost` where the worker itself was given up: it stops all
    that it runs, and registers again.
    """
    return of_beaten(await leases_of(call).abeat(body.worker, body.handles))


@group.post("/work/claim", needs="work")
async def claim_jobs(call: Call, body: Claiming) -> Claimed:
    """Take jobs, as far as the worker has room and limits allow. It renews the lease as a beat does."""
    jobs = await leases_of(call).aclaim(body.worker, body.limit, wait=body.wait, claim_id=body.claim_id)
    return Claimed(jobs=[of_leased(job) for job in jobs])


@group.post("/work/finish", needs="work")
async def finish_run(call: Call, body: Finishing) -> RunEnded:
    """Record how a run ended.

    Repeated after an answer that was lost, it says `again`. 409 `lease_lost` where the job is no longer this run's.
    """
    return of_finished(await leases_of(call).afinish(body.handle, body.end))


@group.post("/work/deregister", needs="work")
async def deregister_worker(call: Call, body: Leaving) -> HandedBack:
    """Let a worker leave. What it still holds is handed back at no cost."""
    return HandedBack(worker=body.worker, released=await leases_of(call).aderegister(body.worker))


def leases_of(call: Call) -> Leases:
    """The lease API, which is of the whole store, as this caller may use it: with workers of its own alone."""
    caller = Caller(call.identity.holder, call.actor, call.identity.queues, call.identity.tasks)
    return call.whole("the lease API").leases._of(caller)
