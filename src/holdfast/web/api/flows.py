"""Flows: read them, wait for them, act on them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...errors import FlowNotSucceeded, NotFound, ResultTimeout
from ...model.flows import (
    CancelPolicy,
    FlowCancel,
    FlowFilter,
    FlowInfo,
    FlowShape,
    FlowState,
    FlowStatus,
    JoinChange,
    Mode,
    Rest,
)
from ...values.codec import plain
from ..wire.call import Call
from ..wire.operation import Answered, Group
from .paging import Page, part, place_at
from .types import Acting, Count, Listing, Name, Reason

group = Group("Flows", "Workflows of dependent jobs.")


class FlowQuery(Listing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters."""

    state: FlowState | None = None
    name: Name | None = None
    tenant: Name | None = None


class FlowWait(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The time to wait."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for it to finish.")] = 0.0


class FlowCancelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The policy: cancel everything, only pending jobs, or only the flow itself."""

    policy: CancelPolicy = CancelPolicy.CANCEL_ALL
    reason: Reason = ""


class MemberRetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `downstream`, its dependents run again too."""

    downstream: bool = True
    reason: Reason = ""


class MemberJoin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The new join: all, any, or a quorum of `needed`; `rest` decides what the others do."""

    needs: Mode
    needed: Count | None = None
    rest: Rest = "run"
    reason: Reason = ""


class FlowAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that run again; none where nothing had to."""

    id: str
    jobs: list[str]
    changed: bool


class FlowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a flow. `failures` says why members did not succeed, by their names."""

    id: str
    state: FlowState
    ended: bool
    result: Any
    failures: dict[str, str]


@group.get("/flows", needs="read")
async def list_flows(call: Call, query: FlowQuery) -> Page[FlowInfo]:
    """List flows, newest first."""
    before = place_at(query.after)[0] if query.after else None
    wanted = FlowFilter(
        state=query.state, name=query.name, tenant=query.tenant, before=before, limit=query.limit
    )  # fmt: skip
    return part(await call.client.flows.afind(wanted), query.limit, lambda flow: (flow.id,))


@group.get("/flows/{flow_id}", needs="read")
async def get_flow(call: Call, flow_id: Name, query: FlowWait) -> FlowStatus:
    """Get a flow and its progress, immediately or after it has finished, waiting at most `wait` seconds."""
    await _wait(call, flow_id, query.wait)
    return await call.client.flows.astatus(flow_id)


@group.get("/flows/{flow_id}/graph", needs="read")
async def get_flow_graph(call: Call, flow_id: Name) -> FlowShape:
    """Get the jobs of a flow with their states, and their dependencies."""
    return (await call.client.flows.agraph(flow_id)).shown


@group.get("/flows/{flow_id}/result", needs="payload", also=(202,), shows_payload=True)
async def get_flow_result(call: Call, flow_id: Name, query: FlowWait) -> Answered[FlowResult]:
    """Get the result of a flow: that of its last member, or those of several by name.

    200 after it has finished; 202 with its state if it has not finished after `wait` seconds.
    """
    await _wait(call, flow_id, query.wait)
    flow = await call.client.flows.astatus(flow_id)
    if flow.finished_at is None:
        return Answered(FlowResult(id=flow_id, state=flow.state, ended=False, result=None, failures={}), 202)
    try:
        # A result may be of one of the app's own types; here it is JSON again.
        result, failures = plain(await call.client.flows.aresult(flow_id, 1.0), what="the result"), {}
    except FlowNotSucceeded as failed:
        result, failures = None, dict(failed.failures)
    return Answered(FlowResult(id=flow_id, state=flow.state, ended=True, result=result, failures=failures))


@group.post("/flows/{flow_id}/cancel", needs="operate")
async def cancel_flow(call: Call, flow_id: Name, body: FlowCancelling) -> FlowCancel:
    """Cancel the unfinished jobs of a flow, as far as the policy says.

    Repeating it returns the result of the first call.
    """
    why = body.reason or "cancelled"
    return await call.client.flows.acancel(flow_id, body.policy, reason=why, actor=call.actor)


@group.post("/flows/{flow_id}/retry", needs="operate")
async def retry_flow(call: Call, flow_id: Name, body: Acting) -> FlowAgain:
    """Run failed, expired and cancelled jobs again, and those skipped because of them."""
    jobs = await call.client.flows.aretry(flow_id, actor=call.actor, reason=body.reason)
    return FlowAgain(id=flow_id, jobs=jobs, changed=bool(jobs))


@group.post("/flows/{flow_id}/members/{member}/retry", needs="operate")
async def retry_member(call: Call, flow_id: Name, member: Name, body: MemberRetry) -> FlowAgain:
    """Run a member again, by name or job id, whatever its outcome."""
    job_id = await _job_of(call, flow_id, member)
    jobs = await call.client.flows.aretry_member(
        job_id, downstream=body.downstream, actor=call.actor, reason=body.reason
    )  # fmt: skip
    return FlowAgain(id=flow_id, jobs=jobs, changed=bool(jobs))


@group.post("/flows/{flow_id}/members/{member}/join", needs="operate")
async def set_member_join(call: Call, flow_id: Name, member: Name, body: MemberJoin) -> JoinChange:
    """Change the number of dependencies a waiting member needs.

    It starts if the new join is already met, and is skipped if it can no longer be met. 409 once the join has fired.
    """
    return await call.client.flows.aset_join(
        await _job_of(call, flow_id, member), body.needs, needed=body.needed, rest=body.rest, actor=call.actor,
        reason=body.reason,
    )  # fmt: skip


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
