"""Flows as tables, as JSON, and as graphs for other programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import click
from rich.text import Text

from ..model.flows import EdgeRecord, FlowGraph, FlowRecord, FlowStatus, MemberRecord
from ..shapes.flows import of_flow, of_graph
from .output import STATE_STYLES, console_for, instant, plain, print_facts, print_table

_ORDER: Final = (
    "ready", "running", "suspended", "blocked", "succeeded", "failed", "cancelled", "expired", "skipped",
)  # fmt: skip
_SHOWN: Final = 200
_MARKS: Final = {
    "succeeded": "✓", "failed": "✗", "cancelled": "✗", "expired": "✗", "skipped": "-", "running": "▶",
    "ready": "○", "blocked": "·", "suspended": "‖",
}  # fmt: skip
_COLOURS: Final = {
    "succeeded": "palegreen", "failed": "salmon", "cancelled": "plum", "expired": "plum", "skipped": "lightgrey",
    "running": "khaki", "suspended": "lightblue",
}  # fmt: skip


def flow_data(flow: FlowRecord) -> dict[str, Any]:
    """Return a flow as JSON."""
    return plain(of_flow(flow))


def graph_data(graph: FlowGraph) -> dict[str, Any]:
    return plain(of_graph(graph))


def print_flows(flows: Sequence[FlowRecord], more: str | None) -> None:
    rows = [
        (
            flow.id,
            flow.name,
            _state(flow),
            f"{flow.members - flow.live:,}/{flow.members:,}",
            instant(flow.created_at, exact=False),
            instant(flow.finished_at, exact=False),
        )
        for flow in flows
    ]
    print_table(("id", "name", "state", "ended#", "created", "finished"), rows, empty="no flows")
    if more:
        click.echo(f"more: --before {more}", err=True)


def print_flow(status: FlowStatus, graph: FlowGraph) -> None:
    flow = status.record
    print_facts(
        [
            ("id", flow.id),
            ("name", flow.name),
            ("tenant", flow.tenant),
            ("state", _state(flow)),
            ("cancel", flow.cancel_at and f"{flow.cancel_policy} {instant(flow.cancel_at)}: {flow.cancel_reason}"),
            ("created", instant(flow.created_at)),
            ("finished", instant(flow.finished_at)),
            ("members", ", ".join(f"{status.counts[name]:,} {name}" for name in _ORDER if name in status.counts)),
        ]
    )
    click.echo()
    before, names, members = _upstreams(graph), _names(graph), in_order(graph)
    rows = [
        (m.name, m.task, str(m.state), m.attempts, m.id, m.reason, _waits(m, before[m.id], names))
        for m, _ in members[:_SHOWN]
    ]
    print_table(("member", "task", "state", "tries#", "job", "why", "depends on…"), rows, empty="no members")
    if len(members) > _SHOWN:
        click.echo(f"and {len(members) - _SHOWN:,} more, which --json lists")
    click.echo()


def print_graph(graph: FlowGraph) -> None:
    """Print each member below its dependencies, indented by depth."""
    console = console_for()
    before, names = _upstreams(graph), _names(graph)
    console.print(Text.assemble(f"{graph.flow.name}  {graph.flow.id}  ", _styled(_state(graph.flow))))
    for member, depth in in_order(graph):
        state = str(member.state)
        waits = _waits(member, before[member.id], names)
        line = Text.assemble("  " * depth, (f"{_MARKS[state]} ", STATE_STYLES.get(state, "")), (member.name, "bold"))
        line.append_text(Text.assemble("  ", _styled(state), f"  ← {waits}" if waits else ""))
        console.print(line)


def dot(graph: FlowGraph) -> str:
    """Return the graph for Graphviz."""
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box, style=filled, fillcolor=white];"]
    lines += [
        f"  {_quoted(m.id)} [label={_quoted(m.name)}, fillcolor={_COLOURS.get(m.state, 'white')}];"
        for m in graph.members
    ]
    for e in graph.edges:
        label = "" if e.policy == "success" else f" [label={e.policy}]"
        lines.append(f"  {_quoted(e.upstream)} -> {_quoted(e.downstream)}{label};")
    return "\n".join([*lines, "}"])


def mermaid(graph: FlowGraph) -> str:
    """Return the graph for Mermaid, such as in Markdown pages."""
    places = {m.id: f"m{n}" for n, m in enumerate(graph.members)}
    lines = ["flowchart LR"]
    for m in graph.members:
        name = m.name.replace('"', "#quot;")
        lines.append(f'  {places[m.id]}["{name}<br>{m.state}"]')
    for e in graph.edges:
        arrow = "-->" if e.policy == "success" else f"-- {e.policy} -->"
        lines.append(f"  {places[e.upstream]} {arrow} {places[e.downstream]}")
    return "\n".join(lines)


def in_order(graph: FlowGraph) -> list[tuple[MemberRecord, int]]:
    """Return the members with their depth, each after its dependencies, otherwise in the order they were added."""
    before, after = _upstreams(graph), defaultdict[str, list[str]](list)
    for edge in graph.edges:
        after[edge.upstream].append(edge.downstream)
    depth = {member.id: 0 for member in graph.members}
    missing = {member.id: len(before[member.id]) for member in graph.members}
    free = [id for id, n in missing.items() if not n]
    while free:
        id = free.pop()
        for child in after[id]:
            depth[child] = max(depth[child], depth[id] + 1)
            missing[child] -= 1
            if not missing[child]:
                free.append(child)
    return sorted(((member, depth[member.id]) for member in graph.members), key=lambda item: (item[1], item[0].id))


def _upstreams(graph: FlowGraph) -> defaultdict[str, list[EdgeRecord]]:
    found: defaultdict[str, list[EdgeRecord]] = defaultdict(list)
    for edge in graph.edges:
        found[edge.downstream].append(edge)
    return found


def _names(graph: FlowGraph) -> dict[str, str]:
    return {member.id: member.name for member in graph.members}


def _waits(member: MemberRecord, edges: Sequence[EdgeRecord], names: dict[str, str]) -> str:
    if not edges:
        return ""
    shown = [f"{names[e.upstream]}{'' if e.policy == 'success' else f' ({e.policy})'}" for e in edges[:5]]
    if len(edges) > 5:
        shown.append(f"{len(edges) - 5:,} more")
    some = {"any": "one of ", "quorum": f"{member.needed} of "}.get(member.mode or "all", "")
    return some + ", ".join(shown)


def _state(flow: FlowRecord) -> str:
    return "cancelling" if flow.cancel_at is not None and flow.finished_at is None else str(flow.state)


def _styled(state: str) -> tuple[str, str]:
    return state, STATE_STYLES.get(state, "")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
