"""What operators do to one job. Each can be repeated: what is so already is said, and nothing is changed."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from ...errors import NotFound
from ...model.answers import CancelResult, DeleteResult
from ...model.control import AlreadySatisfied
from ...shapes.bulk import Acted
from ...shapes.jobs import of_job
from ...shapes.steps import Forked
from ..wire.call import Call
from ..wire.operation import Group
from .newjobs import STORABLE, Priority
from .types import Acting, Name, QueueName, Why

group = Group("Actions", "What operators do to jobs. `changed` is false where it was so already.")

_UNCHANGED: Final = (CancelResult.FINISHED, CancelResult.MOVED)
_Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class CancelJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With an `owner` or an `epoch`, only if the job is in those hands."""

    force: bool = False
    owner: Name | None = None
    epoch: _Epoch | None = None


class RetryJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A `fresh` durable job does the steps again that it has recorded."""

    fresh: bool = False


class NewPriority(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Higher goes first."""

    priority: Priority


class MoveJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """To another queue."""

    queue: QueueName


class RevokeLease(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With an `owner` or an `epoch`, only if the job is in those hands."""

    owner: Name | None = None
    epoch: _Epoch | None = None


class ForkJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From the step of that name, of `name#2` for the second of it, or of that key."""

    from_step: Annotated[str, msgspec.Meta(min_length=1, max_length=512, pattern=STORABLE)]


class GrantJob(Acting, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """To the worker of that name, for so many seconds."""

    worker: Name
    expires: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 30.0


@group.post("/jobs/{job_id}/cancel", needs="operate")
async def cancel_job(call: Call, job_id: Name, body: CancelJob) -> Acted:
    """Cancel a job that waits; ask one that runs to stop, or end it now with `force`.

    The outcome is `cancelled`, `requested`, `finished` where it had ended already, or `moved` where it is in other
    hands than those that were named.
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
    """Run a finished job again: attempts from zero, history kept.

    A durable job goes on from the steps that it has recorded. Unchanged where a live twin holds its dedupe key.
    """
    done = await call.client.jobs.aretry(job_id, fresh=body.fresh, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="retried" if done else "key_taken")


@group.delete("/jobs/{job_id}", needs="operate")
async def delete_job(call: Call, job_id: Name, query: Why) -> Acted:
    """Remove a job and its history.

    The outcome is `deleted`; `cancel_requested` where it runs or others wait for it: delete it again when it has
    ended; `needed` where it belongs to a flow that has not ended.
    """
    done = await call.client.jobs.adelete(job_id, actor=call.actor, reason=query.reason)
    if done is DeleteResult.DELETED:
        return Acted(changed=True, outcome=str(done), job=None)
    return await _acted(call, job_id, changed=done is not DeleteResult.NEEDED, outcome=done)


@group.post("/jobs/{job_id}/run-now", needs="operate")
async def run_job_now(call: Call, job_id: Name, body: Acting) -> Acted:
    """Let a job that is delayed, or waits for a retry, start at once."""
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
    """Keep a job that waits from starting, until it is released."""
    done = await call.client.jobs.ahold(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="held" if done else "already")


@group.post("/jobs/{job_id}/release", needs="operate")
async def release_job(call: Call, job_id: Name, body: Acting) -> Acted:
    """Let a held job go on."""
    done = await call.client.jobs.arelease(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="released" if done else "already")


@group.post("/jobs/{job_id}/revoke", needs="operate")
async def revoke_lease(call: Call, job_id: Name, body: RevokeLease) -> Acted:
    """Take a running job from its worker: ready again at no cost, and its handler is stopped.

    Where there is nothing to take away, the outcome is `no_active_lease`, `different_owner` or `epoch_moved`.
    """
    done = await call.client.jobs.arevoke(
        job_id, owner=body.owner, epoch=body.epoch, actor=call.actor, reason=body.reason
    )
    if isinstance(done, AlreadySatisfied):
        return await _acted(call, job_id, changed=False, outcome=done.reason)
    return await _acted(call, job_id, changed=True, outcome="revoked")


@group.post("/jobs/{job_id}/fork", needs="operate", status=201)
async def fork_job(call: Call, job_id: Name, body: ForkJob) -> Forked:
    """Begin a durable job again from a step: a new job that keeps what this one did before."""
    made = await call.client.jobs.afork(job_id, from_step=body.from_step, actor=call.actor, reason=body.reason)
    return Forked(id=made.id, forked_from=job_id, from_step=body.from_step)


@group.post("/jobs/{job_id}/grant", needs="operate")
async def grant_job(call: Call, job_id: Name, body: GrantJob) -> Acted:
    """Let only one worker claim a job that waits, once; after `expires` seconds it is open to everybody again."""
    await call.client.jobs.agrant(
        job_id, worker=body.worker, expires=body.expires, actor=call.actor, reason=body.reason
    )
    return await _acted(call, job_id, changed=True, outcome="granted")


@group.post("/jobs/{job_id}/withdraw", needs="operate")
async def withdraw_grant(call: Call, job_id: Name, body: Acting) -> Acted:
    """Take a grant back: the job is open to every worker now."""
    done = await call.client.jobs.awithdraw(job_id, actor=call.actor, reason=body.reason)
    return await _acted(call, job_id, changed=done, outcome="withdrawn" if done else "not_granted")


async def _acted(call: Call, job_id: str, *, changed: bool, outcome: str) -> Acted:
    """With the job as it is now; it may have been removed since."""
    try:
        jobs = call.client.jobs
        job = of_job(await jobs.aget(job_id), (), await jobs.ademands(job_id), payload=call.may("payload"))
    except NotFound:
        job = None
    return Acted(changed=changed, outcome=str(outcome), job=job)
