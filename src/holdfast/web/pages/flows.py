"""The list of flows, newest first, by state, name, tenant or time."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from ...clock import SYSTEM_CLOCK
from ...model.flows import FlowFilter, FlowRecord, FlowState
from ...model.stats import MINUTE
from ..wire.call import Call
from ..wire.operation import Group
from .flowrows import countable, row_of
from .frame import Page

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


def _has_tenants(call: Call, flows: list[FlowRecord]) -> bool:
    return not call.identity.tenant and any(flow.tenant for flow in flows)
