"""The page of one flow: its graph, progress, jobs and actions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec

from ...model.flows import CancelPolicy, FlowGraph, MemberRecord
from ...model.jobs import JobState
from ..graph.grouping import MOST
from ..graph.ranks import ranks_of
from ..wire.call import Call
from ..wire.operation import Group
from .flow_graph import draw, feeds_of
from .flows import mix_of
from .forms import ActForm, ask, refusals_at
from .frame import Done, Page
from .templates import below

group = Group("Flow", kind="page")

SHOWN: Final = 100
_NUMBER: Final = re.compile(r"([0-9]{1,18})")
_NAMED: Final = 3
_AGAIN: Final = (JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED, JobState.SKIPPED)
POLICIES: Final = {
    CancelPolicy.CANCEL_ALL: ("Cancel everything", "Pending jobs are cancelled and running jobs are asked to stop."),
    CancelPolicy.CANCEL_PENDING: ("Cancel pending jobs", "Running jobs may finish."),
    CancelPolicy.FLOW_ONLY: ("Stop after ready jobs", "Ready and running jobs finish; no further jobs start."),
}


class FlowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The jobs listed in the table; with `unfold` the graph shows every job."""

    state: JobState | None = None
    after: Annotated[str, msgspec.Meta(max_length=128)] = ""
    unfold: bool = False


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A job of the flow in the table, with its dependencies."""

    member: MemberRecord
    upstreams: list[tuple[str, str, bool]]
    """Names and ids of dependencies, and whether each passes its result."""
    more: int
    """The number of dependencies not listed."""
    took: int | None


@group.get("/flows/{flow_id}", needs="read")
async def show(call: Call, flow_id: str, query: FlowQuery) -> Page:
    """Show a flow."""
    graph = await call.client.flows.agraph(flow_id)
    return Page("flow.html", shows(graph, query))


def shows(graph: FlowGraph, query: FlowQuery) -> dict[str, Any]:
    """Return the context of the page."""
    flow, path = graph.flow, below("flows", graph.flow.id)
    counts = Counter(str(member.state) for member in graph.members)
    listed = [member for member in in_order(graph) if query.state in (None, member.state)]
    rest = _behind(listed, query.after)
    rows = rows_of(graph, rest[:SHOWN])
    return {
        "page": "flows",
        "flow": flow,
        "path": path,
        "query": query,
        "drawing": draw(graph, unfold=query.unfold),
        "unfolds": len(graph.members) <= MOST,
        "fold_href": _address(path, query, unfold=not query.unfold),
        "mix": mix_of(counts),
        "ended": sum(member.finished_at is not None for member in graph.members),
        "took": None if flow.finished_at is None else max(0, flow.finished_at - flow.created_at),
        "again": sum(counts[state] for state in _AGAIN),
        "policies": [(str(policy), *words) for policy, words in POLICIES.items()],
        "chips": [("", "All", len(graph.members), _address(path, query, state=None, after=""))]
        + [(state, state.capitalize(), n, _address(path, query, state=state, after="")) for state, n in mix_of(counts)],
        "rows": rows,
        "listed": len(listed),
        "next": _address(path, query, after=rows[-1].member.name) if len(rest) > SHOWN else None,
        "first": _address(path, query, after="") if query.after else None,
    }


def in_order(graph: FlowGraph) -> list[MemberRecord]:
    """Return the jobs in graph order, by name within each layer, and their total."""
    pairs = [(edge.upstream, edge.downstream) for edge in graph.edges]
    ranks = ranks_of([member.id for member in graph.members], pairs)
    return sorted(graph.members, key=lambda member: (ranks[member.id], _natural(member.name)))


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _NUMBER.split(name[:256]) if part]


def _behind(listed: list[MemberRecord], name: str) -> list[MemberRecord]:
    place = next((place for place, member in enumerate(listed) if member.name == name), -1)
    return listed[place + 1 :]


def rows_of(graph: FlowGraph, members: list[MemberRecord]) -> list[MemberRow]:
    """Return the jobs with their dependencies, those that pass results first."""
    names = {member.id: member.name for member in graph.members}
    feeds = feeds_of(members)
    upstreams: defaultdict[str, list[tuple[str, str, bool]]] = defaultdict(list)
    for edge in graph.edges:
        fed = (edge.upstream, edge.downstream) in feeds
        upstreams[edge.downstream].append((names.get(edge.upstream, edge.upstream), edge.upstream, fed))
    rows: list[MemberRow] = []
    for member in members:
        found = sorted(upstreams[member.id], key=lambda one: (not one[2], one[0]))
        took = None
        if member.started_at is not None and member.finished_at is not None:
            took = max(0, member.finished_at - member.started_at)
        rows.append(MemberRow(member, found[:_NAMED], len(found) - _NAMED, took))
    return rows


def _address(path: str, query: FlowQuery, **changes: Any) -> str:
    fields = {**msgspec.structs.asdict(query), **changes}
    kept = {name: str(value).lower() if value is True else str(value) for name, value in fields.items() if value}
    return path + (f"?{urlencode(kept)}" if kept else "")


class CancelForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cancel policy."""

    policy: CancelPolicy = CancelPolicy.CANCEL_ALL


class MemberForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The job to run again, by id; `alone` leaves its dependents unchanged."""

    job: str
    alone: str = ""


_on_its_page = refusals_at(lambda flow_id, **_: below("flows", flow_id))


@group.post("/flows/{flow_id}/cancel", needs="operate")
@_on_its_page
async def cancel(call: Call, flow_id: str, form: CancelForm) -> Done | Page:
    """Cancel the unfinished jobs, as far as the policy says."""
    there = below("flows", flow_id)
    if not form.confirmed:
        title, text = POLICIES[form.policy]
        return ask(call, form, title=f"{title}?", text=text, go=title, back=there, page="flows", danger=True)
    flow = await call.client.flows.astatus(flow_id)
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
@_on_its_page
async def retry(call: Call, flow_id: str, form: ActForm) -> Done | Page:
    """Run the failed jobs again, and those skipped because of them."""
    jobs = await call.client.flows.aretry(flow_id, actor=call.actor, reason=form.reason)
    if not jobs:
        return Done(below("flows", flow_id), "No failed jobs to retry, or they are already running again.", ok=False)
    return Done(below("flows", flow_id), f"{_members(len(jobs))} again.")


@group.post("/flows/{flow_id}/retry-member", needs="operate")
@_on_its_page
async def retry_member(call: Call, flow_id: str, form: MemberForm) -> Done | Page:
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
    jobs = await call.client.flows.aretry_member(
        form.job, downstream=not form.alone, actor=call.actor, reason=form.reason
    )  # fmt: skip
    return Done(there, f"{_members(len(jobs))} again." if jobs else "Already running.", ok=bool(jobs))


def _members(n: int) -> str:
    return "1 job runs" if n == 1 else f"{n:,} jobs run"
