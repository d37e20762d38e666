"""What operators do to a flow: cancel it, run its failed part again, replay a member with all behind it."""

from __future__ import annotations

from functools import wraps
from typing import Any

from ...errors import Conflict, InvalidInput
from ...model.flow import CancelPolicy
from ..wire.call import Call
from ..wire.operation import Group
from .addresses import below
from .asking import Act, ActForm, ask, sentence
from .flow import POLICIES
from .frame import Done, Page

group = Group("Flow actions", kind="page")


class CancelForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far it goes."""

    policy: CancelPolicy = CancelPolicy.CANCEL_ALL


class ReplayForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which member, by the id of its job; `alone` leaves those alone that wait for it."""

    job: str
    alone: str = ""


def _told(act: Act) -> Act:
    """What the flow's state does not allow is said on its page."""

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
    """Cancel what has not ended, as far as the policy goes."""
    there = below("flows", flow_id)
    if not form.confirmed:
        title, text = POLICIES[form.policy]
        return ask(call, form, title=f"{title}?", text=text, go=title, back=there, page="flows", danger=True)
    flow = (await call.client.flows.astatus(flow_id)).record
    if flow.finished_at is not None:
        return Done(there, f"It had ended already, as {flow.state}; nothing was changed.", ok=False)
    done = await call.client.flows.acancel(
        flow_id, form.policy, reason=form.reason or "cancelled", actor=call.actor
    )  # fmt: skip
    if done.again:
        return Done(there, f"It was cancelled already ({done.reason}); nothing was changed.", ok=False)
    return Done(there, {
        CancelPolicy.CANCEL_ALL: "Cancelled; what runs was asked to stop.",
        CancelPolicy.CANCEL_PENDING: "What had not started is cancelled.",
        CancelPolicy.FLOW_ONLY: "Nothing more of it is released.",
    }[done.policy])  # fmt: skip


@group.post("/flows/{flow_id}/retry", needs="operate")
@_told
async def retry(call: Call, flow_id: str, form: ActForm) -> Done | Page:
    """Run again what failed, and what was skipped for its sake."""
    jobs = await call.client.flows.aretry(flow_id, actor=call.actor, reason=form.reason)
    if not jobs:
        return Done(below("flows", flow_id), "Nothing of it has failed, or it runs again already.", ok=False)
    return Done(below("flows", flow_id), f"{_members(len(jobs))} again.")


@group.post("/flows/{flow_id}/replay", needs="operate")
@_told
async def replay(call: Call, flow_id: str, form: ReplayForm) -> Done | Page:
    """Run a member again, whatever became of it, and all that wait for it."""
    there = below("flows", flow_id)
    if not form.confirmed:
        text = "It runs again, whatever became of it" + ("." if form.alone else ", and so do all that wait for it.")
        return ask(call, form, title="Run this member again?", text=text, go="Run again", back=there, page="flows")
    member = await call.client.jobs.aget(form.job, whole=False)
    if member.flow != flow_id:
        return Done(there, f"Job {form.job} is no member of this flow.", ok=False)
    jobs = await call.client.flows.areplay(
        form.job, downstream=not form.alone, actor=call.actor, reason=form.reason
    )  # fmt: skip
    return Done(there, f"{_members(len(jobs))} again." if jobs else "It runs already.", ok=bool(jobs))


def _members(n: int) -> str:
    return "One member runs" if n == 1 else f"{n:,} members run"
