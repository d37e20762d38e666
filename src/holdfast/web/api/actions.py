"""Operator actions on one job. All are idempotent: repeating one changes nothing and says so."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from ...errors import NotFound
from ...model.actions import AlreadySatisfied
from ...model.answers import CancelResult, DeleteResult
from ...shapes.bulk import Acted
from ...shapes.jobs import of_job
from ..wire.call import Call
from ..wire.operation import Group
from .enqueue import STORABLE, Priority
from .types import Acting, Name, QueueName, ReasonQuery

group = Group("Actions", "Operator actions on jobs. `changed` is false if the job was already in that state.")

_UNCHANGED: Final = (CancelResult.FINISHED, CancelResult.MOVED)
_Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class CancelJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With an `owner` or an `epoch`, only if that run holds the job."""

    force: bool = False
    owner: Name | None = None
    epoch: _Epoch | None = None


class RetryJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `fresh`, a durable job runs its recorded steps again."""

    fresh: bool = False


class NewPriority(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Higher runs first."""

    priority: Priority


class MoveJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The target queue."""

    queue: QueueName


class RevokeLease(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With an `owner` or an `epoch`, only if that run holds the job."""

    owner: Name | None = None
    epoch: _Epoch | None = None


class ForkJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The step to start from: its name, `name#2` for the second of that name, or its key."""

    from_step: Annotated[str, msgspec.Meta(min_length=1, max_length=512, pattern=STORABLE)]


class GrantJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The worker by name, and the seconds until the grant expires."""

    worker: Name
    expires: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 30.0


@group.post("/jobs/{job_id}/cancel", needs="operate")
async def cancel_job(call: Call, job_id: Name, body: CancelJob) -> Acted:
    """Cancel a waiting job; ask a running one to stop, or end it now with `force`.

    The outcome is `cancelled`, `requested`, `finished` if it had already finished, or `moved` if another run holds it
    than the one named.
    """
    before = await call.client.jobs.aget(job_id, whole=False)
    done = await call.client.jobs.acancel(
        job_id,
        reason=body.reason or "cancelled",
        force=body.force,
        owner=body.owner,
        epoch=body.epoch,
        actor=call.actor,
    )
    again = done is CancelResult.REQUESTED and before.cancel_at is not None
    return await _acted(call, job_id, changed=done not in _UNCHANGED and not again, outcome=done)


@group.post("/jobs/{job_id}/retry", needs="operate")
async def retry_job(call: Call, job_id: Name, body: RetryJob) -> Acted:
    """Run a finished job again: attempts are reset, its history is kept.

    A durable job resumes from its recorded steps. Unchanged if an unfinished job has the same dedupe key.
    """
    done = await call.client.jobs.aretry(job_id, fresh=body.fresh, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="retried" if done else "key_taken")


@group.delete("/jobs/{job_id}", needs="operate")
async def delete_job(call: Call, job_id: Name, query: ReasonQuery) -> Acted:
    """Delete a job and its history.

    The outcome is `deleted`; `cancel_requested` if it is running or others depend on it (delete it again after it has
    finished); `needed` if it belongs to an unfinished flow.
    """
    done = await call.client.jobs.adelete(job_id, actor=call.actor, reason=query.reason)
    if done is DeleteResult.DELETED:
        return Acted(changed=True, outcome=str(done), job=None)
    return await _acted(call, job_id, changed=done is not DeleteResult.NEEDED, outcome=done)


@group.post("/jobs/{job_id}/run-now", needs="operate")
async def run_job_now(call: Call, job_id: Name, body: Acting) -> Acted:
    """Start a job now that is delayed or waits for a retry."""
    done = await call.client.jobs.arun_now(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="due" if done else "already_due")


@group.post("/jobs/{job_id}/priority", needs="operate")
async def set_priority(call: Call, job_id: Name, body: NewPriority) -> Acted:
    """Change the priority of a job that has not started."""
    done = await call.client.jobs.aset_priority(job_id, body.priority, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="changed" if done else "already")


@group.post("/jobs/{job_id}/move", needs="operate")
async def move_job(call: Call, job_id: Name, body: MoveJob) -> Acted:
    """Move a job that has not started to another queue."""
    done = await call.client.jobs.amove(job_id, body.queue, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="moved" if done else "already")


@group.post("/jobs/{job_id}/hold", needs="operate")
async def hold_job(call: Call, job_id: Name, body: Acting) -> Acted:
    """Keep a waiting job from starting until it is released."""
    done = await call.client.jobs.ahold(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="held" if done else "already")


@group.post("/jobs/{job_id}/release", needs="operate")
async def release_job(call: Call, job_id: Name, body: Acting) -> Acted:
    """Release a held job."""
    done = await call.client.jobs.arelease(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="released" if done else "already")


@group.post("/jobs/{job_id}/revoke", needs="operate")
async def revoke_lease(call: Call, job_id: Name, body: RevokeLease) -> Acted:
    """Revoke a running job's lease: it is ready again without using an attempt, and its handler is stopped.

    If there is nothing to revoke, the outcome is `no_active_lease`, `different_owner` or `epoch_moved`.
    """
    done = await call.client.jobs.arevoke(
        job_id, owner=body.owner, epoch=body.epoch, actor=call.actor, reason=body.reason
    )
    if isinstance(done, AlreadySatisfied):
        return await _acted(call, job_id, changed=False, outcome=done.reason)
    return await _acted(call, job_id, changed=True, outcome="revoked")


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A new job that continues from a step of another."""

    id: str
    forked_from: str
    from_step: str


@group.post("/jobs/{job_id}/fork", needs="operate", status=201)
async def fork_job(call: Call, job_id: Name, body: ForkJob) -> Forked:
    """Fork a durable job from a step: a new job that keeps the results recorded before it."""
    made = await call.client.jobs.afork(job_id, from_step=body.from_step, actor=call.actor, reason=body.reason)
    return Forked(id=made.id, forked_from=job_id, from_step=body.from_step)


@group.post("/jobs/{job_id}/grant", needs="operate")
async def grant_job(call: Call, job_id: Name, body: GrantJob) -> Acted:
    """Reserve a waiting job for one worker; after `expires` seconds any worker may claim it again."""
    await call.client.jobs.agrant(
        job_id, worker=body.worker, expires=body.expires, actor=call.actor, reason=body.reason
    )
    return await _acted(call, job_id, changed=True, outcome="granted")


@group.post("/jobs/{job_id}/withdraw", needs="operate")
async def withdraw_grant(call: Call, job_id: Name, body: Acting) -> Acted:
    """Withdraw a grant: any worker may claim the job now."""
    done = await call.client.jobs.awithdraw(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="withdrawn" if done else "not_granted")


async def _acted(call: Call, job_id: str, *, changed: bool, outcome: str) -> Acted:
    """Return the action's outcome with the job's current state; the job may be gone."""
    try:
        jobs = call.client.jobs
        job = of_job(await jobs.aget(job_id), (), await jobs.ademands(job_id), payload=call.may("payload"))
    except NotFound:
        job = None
    return Acted(changed=changed, outcome=str(outcome), job=job)
