"""Flows: look at them, wait for them, act on them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...codec import plain
from ...errors import FlowNotSucceeded, NotFound, ResultTimeout
from ...model.flow import CancelPolicy, FlowFilter, FlowState, Mode, Rest
from ...shapes.flows import (
    Flow,
    FlowAgain,
    FlowCancelled,
    FlowDetail,
    FlowJoin,
    FlowResult,
    FlowShape,
    of_flow,
    of_flow_cancel,
    of_flow_status,
    of_graph,
    of_join_change,
)  # fmt: skip
from ...shapes.pages import Page, part, place_at
from ..wire.call import Call
from ..wire.operation import Answered, Group
from .types import Acting, Count, Listing, Name, Reason

group = Group("Flows", "Jobs of which some wait for others.")


class FlowQuery(Listing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which flows."""

    state: FlowState | None = None
    name: Name | None = None
    tenant: Name | None = None


class FlowWait(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long to wait."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for its end.")] = 0.0


class FlowCancelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far it goes: all of it, only what has not started, or nothing but the flow itself."""

    policy: CancelPolicy = CancelPolicy.CANCEL_ALL
    reason: Reason = ""


class MemberReplay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `downstream`, all that wait for it run again, too."""

    downstream: bool = True
    reason: Reason = ""


class MemberJoin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many upstreams it needs from now on: all, any, or a quorum of `needed`; `rest` is for the others."""

    needs: Mode
    needed: Count | None = None
    rest: Rest = "run"
    reason: Reason = ""


@group.get("/flows", needs="read")
async def list_flows(call: Call, query: FlowQuery) -> Page[Flow]:
    """Flows, newest first."""
    before = place_at(query.after)[0] if query.after else None
    wanted = FlowFilter(
        state=query.state, name=query.name, tenant=query.tenant, before=before, limit=query.limit
    )  # fmt: skip
    return part(await call.client.flows.afind(wanted), query.limit, of_flow, lambda flow: (flow.id,))


@group.get("/flows/{flow_id}", needs="read")
async def get_flow(call: Call, flow_id: Name, query: FlowWait) -> FlowDetail:
    """A flow and how far it is, at once or when it has ended, after `wait` seconds at the latest."""
    await _wait(call, flow_id, query.wait)
    return of_flow_status(await call.client.flows.astatus(flow_id))


@group.get("/flows/{flow_id}/graph", needs="read")
async def get_flow_graph(call: Call, flow_id: Name) -> FlowShape:
    """The members of a flow with their states, and which of them wait for which."""
    return of_graph(await call.client.flows.agraph(flow_id))


@group.get("/flows/{flow_id}/result", needs="payload", also=(202,))
async def get_flow_result(call: Call, flow_id: Name, query: FlowWait) -> Answered[FlowResult]:
    """What a flow came to: the result of the member that nobody waits for, or those of several by name.

    200 when it has ended; 202 with its state where it has not, after `wait` seconds.
    """
    await _wait(call, flow_id, query.wait)
    flow = (await call.client.flows.astatus(flow_id)).record
    if flow.finished_at is None:
        return Answered(FlowResult(id=flow_id, state=flow.state, ended=False, result=None, failures={}), 202)
    try:
        # A result may be of a type of the program's own; here it is JSON again.
        result, failures = plain(await call.client.flows.aresult(flow_id, 1.0), what="the result"), {}
    except FlowNotSucceeded as failed:
        result, failures = None, dict(failed.failures)
    return Answered(FlowResult(id=flow_id, state=flow.state, ended=True, result=result, failures=failures))


@group.post("/flows/{flow_id}/cancel", needs="operate")
async def cancel_flow(call: Call, flow_id: Name, body: FlowCancelling) -> FlowCancelled:
    """Cancel what has not ended, as far as the policy goes. Repeated, it tells what the first one did."""
    why = body.reason or "cancelled"
    return of_flow_cancel(flow_id, await call.client.flows.acancel(flow_id, body.policy, reason=why, actor=call.actor))


@group.post("/flows/{flow_id}/retry", needs="operate")
async def retry_flow(call: Call, flow_id: Name, body: Acting) -> FlowAgain:
    """Run again what failed, expired or was cancelled, and what was skipped for its sake."""
    jobs = await call.client.flows.aretry(flow_id, actor=call.actor, reason=body.reason)
    return FlowAgain(id=flow_id, jobs=jobs, changed=bool(jobs))


@group.post("/flows/{flow_id}/members/{member}/replay", needs="operate")
async def replay_member(call: Call, flow_id: Name, member: Name, body: MemberReplay) -> FlowAgain:
    """Run a member again, by its name or the id of its job, whatever became of it."""
    job_id = await _job_of(call, flow_id, member)
    jobs = await call.client.flows.areplay(
        job_id, downstream=body.downstream, actor=call.actor, reason=body.reason
    )  # fmt: skip
    return FlowAgain(id=flow_id, jobs=jobs, changed=bool(jobs))


@group.post("/flows/{flow_id}/members/{member}/join", needs="operate")
async def set_member_join(call: Call, flow_id: Name, member: Name, body: MemberJoin) -> FlowJoin:
    """Change how many upstreams a member needs, while it waits for them.

    It starts if the new join is met already, and is skipped if it can no longer be met. 409 once the join has fired.
    """
    done = await call.client.flows.aset_join(
        await _job_of(call, flow_id, member), body.needs, needed=body.needed, rest=body.rest, actor=call.actor,
        reason=body.reason,
    )  # fmt: skip
    return of_join_change(flow_id, done)


async def _wait(call: Call, flow_id: str, seconds: float) -> None:
    if seconds > 0:
        try:
            await call.client.flows.await_(flow_id, seconds)
        except ResultTimeout:
            return


async def _job_of(call: Call, flow_id: str, member: str) -> str:
    members = (await call.client.flows.agraph(flow_id)).members
    for found in members:
        if member in (found.name, found.id):
            return found.id
    raise NotFound("member", member)
