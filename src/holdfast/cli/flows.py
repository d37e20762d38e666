"""`holdfast flows`: workflows of dependent jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, get_args

import click
from rich.text import Text

from ..app import App
from ..errors import NotFound, ResultTimeout
from ..model.flows import (
    CancelPolicy,
    EdgeRecord,
    FlowFilter,
    FlowGraph,
    FlowInfo,
    FlowState,
    FlowStatus,
    MemberRecord,
    Mode,
    Rest,
)
from .command import (
    EXIT_CODES,
    FAILED,
    Command,
    Duration,
    actor_option,
    echo,
    json_option,
    reason_option,
    target_options,
)
from .locate import find_app
from .output import STATE_STYLES, console_for, instant, plain, print_facts, print_json, print_table


@click.group(epilog=EXIT_CODES)
def flows() -> None:
    """Show flows and act on them."""


@flows.command("list", cls=Command)
@click.option("--state", type=click.Choice([str(state) for state in FlowState]))
@click.option("--name", metavar="NAME", help="Flows of this name.")
@click.option("--tenant", metavar="NAME")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", help="[default: 50]")
@click.option("--before", metavar="ID", help="Only flows before this one: the `next` of the previous page.")
@json_option
@target_options
def list_(
    app_name: str | None, store: str | None, as_json: bool, debug: bool, state: str | None, **wanted: Any
) -> None:
    """List flows, newest first, with their progress."""
    chosen = FlowFilter(state=FlowState(state) if state else None, **wanted)
    found = find_app(app_name, store).flows.find(chosen)
    more = found[-1].id if len(found) == chosen.limit else None
    if as_json:
        print_json({"flows": [plain(flow) for flow in found], "next": more})
    else:
        print_flows(found, more)


@flows.command(cls=Command)
@click.argument("flow", metavar="FLOW")
@json_option
@target_options
def show(flow: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a flow's state, its progress and its members."""
    app = find_app(app_name, store)
    status, graph = app.flows.status(flow), app.flows.graph(flow)
    if as_json:
        print_json(plain(status) | plain(graph.shown))
    else:
        print_flow(status, graph)


@flows.command(cls=Command)
@click.argument("flow", metavar="FLOW")
@click.option("--format", "form", type=click.Choice(["text", "dot", "mermaid"]), default="text", help="[default: text]")
@json_option
@target_options
def graph(flow: str, form: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Print the dependencies as text, or as a graph for Graphviz or Mermaid."""
    found = find_app(app_name, store).flows.graph(flow)
    if as_json:
        print_json(plain(found.shown))
    elif form == "text":
        print_graph(found)
    else:
        echo(dot(found) if form == "dot" else mermaid(found))


@flows.command(cls=Command)
@click.argument("ids", metavar="FLOW...", nargs=-1, required=True)
@click.option(
    "--policy",
    type=click.Choice([str(policy) for policy in CancelPolicy]),
    default=str(CancelPolicy.CANCEL_ALL),
    help="What to cancel. [default: cancel_all]",
)
@click.option("--wait", type=Duration(), metavar="DURATION", help="Wait this long for the flow to finish.")
@actor_option
@reason_option
@json_option
@target_options
@click.pass_context
def cancel(
    ctx: click.Context,
    ids: Sequence[str],
    policy: str,
    wait: float | None,
    *,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Cancel unfinished jobs: all of them, only pending ones, or only the flow itself."""
    app = find_app(app_name, store)
    results = []
    for flow in ids:
        done = app.flows.cancel(flow, policy, reason=reason or "cancelled", actor=actor)
        ended = _ended(app, flow, wait)
        results.append(plain(done) | ended)
        if not as_json:
            how = "was already cancelled" if done.again else "is cancelled"
            echo(f"flow {flow} {how} ({done.policy}); {len(done.members):,} jobs affected; it is {ended['state']}")
    if as_json:
        print_json({"flows": results})
    ctx.exit(0 if wait is None or all(item["state"] != "running" for item in results) else FAILED)


@flows.command(cls=Command)
@click.argument("flow", metavar="FLOW")
@click.option("--member", metavar="NAME", help="Only this member and its dependents, whatever its outcome.")
@click.option("--only", is_flag=True, help="With --member: leave its dependents alone.")
@actor_option
@reason_option
@json_option
@target_options
def retry(
    flow: str,
    member: str | None,
    only: bool,
    *,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Retry a flow: run failed, expired and cancelled jobs again, and those skipped because of them."""
    app = find_app(app_name, store)
    if member is None:
        again = app.flows.retry(flow, actor=actor, reason=reason)
    else:
        again = app.flows.retry_member(_job_of(app, flow, member), downstream=not only, actor=actor, reason=reason)
    if as_json:
        print_json({"id": flow, "jobs": again})
    else:
        many = "1 member runs" if len(again) == 1 else f"{len(again):,} members run"
        echo(f"flow {flow}: {many} again" if again else f"flow {flow}: nothing to run again")


@flows.command("set-join", cls=Command)
@click.argument("flow", metavar="FLOW")
@click.argument("member", metavar="MEMBER")
@click.option("--needs", type=click.Choice(get_args(Mode)), required=True, help="Number of dependencies it needs.")
@click.option("--needed", type=int, metavar="N", help="With --needs quorum: the number.")
@click.option(
    "--rest",
    type=click.Choice(get_args(Rest)),
    default="run",
    help="What happens to the other dependencies. [default: run]",
)
@actor_option
@reason_option
@json_option
@target_options
def set_join(
    flow: str,
    member: str,
    *,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **change: Any,
) -> None:
    """Change the number of dependencies a waiting member needs, such as 7 of 10 instead of all."""
    app = find_app(app_name, store)
    done = app.flows.set_join(_job_of(app, flow, member), **change)
    if as_json:
        print_json(plain(done))
    else:
        many = {"all": f"all {done.upstreams:,}", "any": f"one of {done.upstreams:,}"}.get(
            done.needs, f"{done.needed:,} of {done.upstreams:,}"
        )
        how = "now needs" if done.changed else "already needed"
        echo(f"member {member} {how} {many} dependencies; it is {done.state}")


def _ended(app: App, flow: str, wait: float | None) -> dict[str, str]:
    if wait is not None:
        try:
            return {"state": str(app.flows.wait(flow, wait).state)}
        except ResultTimeout:
            pass
    return {"state": str(app.flows.status(flow).state)}


def _job_of(app: App, flow: str, member: str) -> str:
    for found in app.flows.graph(flow).members:
        if member in (found.name, found.id):
            return found.id
    raise NotFound("member", member)


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


def print_flows(flows: Sequence[FlowInfo], more: str | None) -> None:
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
        echo(f"more: --before {more}", err=True)


def print_flow(flow: FlowStatus, graph: FlowGraph) -> None:
    cancelled = flow.cancel_requested_at
    print_facts(
        [
            ("id", flow.id),
            ("name", flow.name),
            ("tenant", flow.tenant),
            ("state", _state(flow)),
            ("cancel", cancelled and f"{flow.cancel_policy} {instant(cancelled)}: {flow.cancel_reason}"),
            ("created", instant(flow.created_at)),
            ("finished", instant(flow.finished_at)),
            ("members", ", ".join(f"{flow.counts[name]:,} {name}" for name in _ORDER if name in flow.counts)),
        ]
    )
    echo()
    before, names, members = _upstreams(graph), _names(graph), in_order(graph)
    rows = [
        (m.name, m.task, str(m.state), m.attempts, m.id, m.reason, _waits(m, before[m.id], names))
        for m, _ in members[:_SHOWN]
    ]
    print_table(("member", "task", "state", "tries#", "job", "why", "depends on…"), rows, empty="no members")
    if len(members) > _SHOWN:
        echo(f"and {len(members) - _SHOWN:,} more, which --json lists")
    echo()


def print_graph(graph: FlowGraph) -> None:
    """Print each member below its dependencies, indented by depth."""
    console = console_for()
    before, names = _upstreams(graph), _names(graph)
    console.print(Text.assemble(f"{graph.flow.name}  {graph.flow.id}  ", _styled(_state(graph.flow.shown))))
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


def _state(flow: FlowInfo) -> str:
    return "cancelling" if flow.cancel_requested_at is not None and flow.finished_at is None else str(flow.state)


def _styled(state: str) -> tuple[str, str]:
    return state, STATE_STYLES.get(state, "")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
