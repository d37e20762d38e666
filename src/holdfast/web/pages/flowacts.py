"""Operator actions on a flow: cancel it, retry its failed jobs, run a job again with its dependents."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ...errors import Conflict, InvalidInput
from ...model.flows import CancelPolicy
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .asking import Act, ActForm, ask, sentence
from .flow import POLICIES
from .frame import Done, Page

group = Group("Flow actions", kind="page")


class CancelForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cancel policy."""

    policy: CancelPolicy = CancelPolicy.CANCEL_ALL


class ReplayForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The job to run again, by id; `alone` leaves its dependents unchanged."""

    job: str
    alone: str = ""


def _told(act: Act) -> Act:
    """Show conflicts with the flow's state on its page."""

    @wraps(act)
    async def telling(call: Call, flow_id: str, **given: Any) -> Done | Page:
        try:
            return await act(call, flow_id, **given)
        except (Conflict, InvalidInput) as refused:
            return Done(below("flows", flow_id), sentence(str(refused)), ok=False)

    return telling


@group.post("/flows/{flow_id}/cancel", needs="operate")
@_told
async def cancel(call: Call, flow_id: str, form: CancelForm) -> Done | Page:
    """Cancel the unfinished jobs, as far as the policy says."""
    there = below("flows", flow_id)
    if not form.confirmed:
        title, text = POLICIES[form.policy]
        return ask(call, form, title=f"{title}?", text=text, go=title, back=there, page="flows", danger=True)
    flow = (await call.client.flows.astatus(flow_id)).record
    if flow.finished_at is not None:
        return Done(there, f"The flow has already {flow.state}; nothing changed.", ok=False)
    done = await call.client.flows.acancel(
        flow_id, form.policy, reason=form.reason or "cancelled", actor=call.actor
    )  # fmt: skip
    if done.again:
        return Done(there, f"Already cancelled ({done.reason}); nothing changed.", ok=False)
    return Done(there, {
        CancelPolicy.CANCEL_ALL: "Cancelled. Running jobs were asked to stop.",
        CancelPolicy.CANCEL_PENDING: "Jobs that had not started were cancelled.",
        CancelPolicy.FLOW_ONLY: "No further jobs of this flow will start.",
    }[done.policy])  # fmt: skip


@group.post("/flows/{flow_id}/retry", needs="operate")
@_told
async def retry(call: Call, flow_id: str, form: ActForm) -> Done | Page:
    """Run the failed jobs again, and those skipped because of them."""
    jobs = await call.client.flows.aretry(flow_id, actor=call.actor, reason=form.reason)
    if not jobs:
        return Done(below("flows", flow_id), "No failed jobs to retry, or they are already running again.", ok=False)
    return Done(below("flows", flow_id), f"{_members(len(jobs))} again.")


@group.post("/flows/{flow_id}/replay", needs="operate")
@_told
async def replay(call: Call, flow_id: str, form: ReplayForm) -> Done | Page:
    """Run a job again, whatever its outcome, and its dependents."""
    there = below("flows", flow_id)
    if not form.confirmed:
        text = "The job runs again, whatever its outcome" + (
            "." if form.alone else ", and so do the jobs that depend on it."
        )
        return ask(call, form, title="Run this job again?", text=text, go="Run again", back=there, page="flows")
    member = await call.client.jobs.aget(form.job, whole=False)
    if member.flow != flow_id:
        return Done(there, f"Job {form.job} is not part of this flow.", ok=False)
    jobs = await call.client.flows.areplay(
        form.job, downstream=not form.alone, actor=call.actor, reason=form.reason
    )  # fmt: skip
    return Done(there, f"{_members(len(jobs))} again." if jobs else "Already running.", ok=bool(jobs))


def _members(n: int) -> str:
    return "1 job runs" if n == 1 else f"{n:,} jobs run"
