"""The list of flows, newest first, by state, name, tenant or time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from ...clock import SYSTEM_CLOCK
from ...model.flows import FlowFilter, FlowInfo, FlowState
from ...model.jobs import JobState
from ...model.stats import MINUTE
from ...model.values import micros_of
from ..wire.call import Call
from ..wire.operation import Group
from .frame import Page
from .templates import below

group = Group("Flows", kind="page")

SHOWN: Final = 50
_WINDOWS: Final = {"1h": 60, "24h": 24 * 60, "7d": 7 * 24 * 60}
_LABELS: Final = {"all": "Any time", "1h": "Last hour", "24h": "Last day", "7d": "Last week"}

_Text = Annotated[str, msgspec.Meta(max_length=128)]


class FlowsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters. `from` and `to` are microseconds, for links from charts; `before` is a position in the list."""

    state: Literal["", "running", "succeeded", "failed", "cancelled"] = ""
    name: _Text = ""
    tenant: _Text = ""
    window: Literal["all", "1h", "24h", "7d"] = "all"
    from_: int | None = msgspec.field(default=None, name="from")
    to: int | None = None
    before: _Text = ""


@group.get("/flows", needs="read")
async def show(call: Call, query: FlowsQuery) -> Page:
    """Show the list."""
    wanted = filter_of(query, SYSTEM_CLOCK.now())
    found = await call.client.flows.afind(wanted)
    flows, more = found[:SHOWN], len(found) > SHOWN
    counts = await call.client.flows.acounts(countable(flows))
    return Page(
        "flows.html",
        {
            "page": "flows",
            "rows": [row_of(flow, counts.get(flow.id, {})) for flow in flows],
            "query": query,
            "states": [("", "All", _address(query, state="", before=""))]
            + [(str(one), str(one).capitalize(), _address(query, state=str(one), before="")) for one in FlowState],
            "windows": [(_LABELS[one], _address(query, window=one, before=""), one == query.window) for one in _LABELS],
            "tenants": _has_tenants(call, flows),
            "lifted": _lifted(query),
            "older": _address(query, before=flows[-1].id) if more else None,
            "newest": _address(query, before="") if query.before else None,
            "narrowed": _narrowed(query),
        },
    )


def filter_of(query: FlowsQuery, now: int) -> FlowFilter:
    """Return the filter for the store, with one row more than shown to detect a next page."""
    minutes = _WINDOWS.get(query.window)
    since = query.from_ if minutes is None else now - minutes * MINUTE
    return FlowFilter(
        state=FlowState(query.state) if query.state else None,
        name=query.name or None,
        tenant=query.tenant or None,
        since=since,
        until=query.to,
        before=query.before or None,
        limit=SHOWN + 1,
    )


def _address(query: FlowsQuery, **changes: Any) -> str:
    fields = {**msgspec.structs.asdict(query), **changes}
    named = {"from" if name == "from_" else name: value for name, value in fields.items()}
    kept = {name: value for name, value in named.items() if value not in ("", None, "all")}
    return "/flows" + (f"?{urlencode(kept)}" if kept else "")


def _lifted(query: FlowsQuery) -> list[tuple[str, str, str]]:
    """Return the other active filters, each with the URL without it."""
    found = [(one, getattr(query, one), _address(query, **{one: "", "before": ""})) for one in ("name", "tenant")]
    if query.from_ is not None or query.to is not None:
        found.append(("time", "selected in a chart", _address(query, from_=None, to=None, before="")))
    return [one for one in found if one[1]]


def _narrowed(query: FlowsQuery) -> bool:
    return bool(query.state or query.window != "all" or query.before or _lifted(query))


def _has_tenants(call: Call, flows: list[FlowInfo]) -> bool:
    return not call.identity.tenant and any(flow.tenant for flow in flows)


COUNTED: Final = 20_000
"""The maximum number of jobs counted by state on a page; beyond it, only finished jobs are shown."""
ORDER: Final = (
    JobState.SUCCEEDED, JobState.RUNNING, JobState.READY, JobState.SUSPENDED, JobState.BLOCKED, JobState.FAILED,
    JobState.EXPIRED, JobState.CANCELLED, JobState.SKIPPED,
)  # fmt: skip
"""The order in which states are drawn: done, in progress, pending, failed."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow in the list."""

    flow: FlowInfo
    path: str
    mix: list[tuple[str, int]]
    """Jobs by state; empty where there are too many to count."""
    ended: int
    took: int | None
    runs_since: datetime | None


def row_of(flow: FlowInfo, counts: Mapping[str, int]) -> FlowRow:
    """Return one flow with its jobs by state."""
    lives = flow.finished_at is None
    return FlowRow(
        flow,
        below("flows", flow.id),
        mix_of(counts),
        flow.members - flow.live,
        None if flow.finished_at is None else _micros(flow.created_at, flow.finished_at),
        flow.created_at if lives else None,
    )


def _micros(start: datetime, end: datetime) -> int:
    return max(0, micros_of(end) - micros_of(start))


def mix_of(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the states that occur, in drawing order."""
    return [(str(state), counts[state]) for state in ORDER if counts.get(state)]


def countable(flows: Sequence[FlowInfo]) -> list[str]:
    """Return the flows whose jobs are counted: the first ones, up to a limit."""
    found: list[str] = []
    left = COUNTED
    for flow in flows:
        if flow.members <= left:
            found.append(flow.id)
            left -= flow.members
    return found
