"""`holdfast flows`: workflows of dependent jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from ..app import App
from ..errors import NotFound, ResultTimeout
from ..model.flows import CancelPolicy, FlowFilter, FlowState, Mode, Rest
from ..shapes.flows import of_join_change
from .command import EXIT_CODES, FAILED, Command, json_option, target_options
from .flowview import dot, flow_data, graph_data, mermaid, print_flow, print_flows, print_graph
from .locate import find_app
from .operator import Duration, actor_option, reason_option
from .output import plain, print_json


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
        print_json({"flows": [flow_data(flow) for flow in found], "next": more})
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
        print_json(flow_data(status.record) | {"counts": status.counts} | graph_data(graph))
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
        print_json(graph_data(found))
    elif form == "text":
        print_graph(found)
    else:
        click.echo(dot(found) if form == "dot" else mermaid(found))


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
    told = []
    for flow in ids:
        done = app.flows.cancel(flow, policy, reason=reason or "cancelled", actor=actor)
        ended = _ended(app, flow, wait)
        told.append(
            {
                "id": flow,
                "policy": str(done.policy),
                "reason": done.reason,
                "again": done.again,
                "members": list(done.members),
            }
            | ended
        )
        if not as_json:
            how = "was already cancelled" if done.again else "is cancelled"
            click.echo(
                f"flow {flow} {how} ({done.policy}); {len(done.members):,} jobs affected; it is {ended['state']}"
            )
    if as_json:
        print_json({"flows": told})
    ctx.exit(0 if wait is None or all(item["state"] != "running" for item in told) else FAILED)


@flows.command(cls=Command)
@click.argument("flow", metavar="FLOW")
@click.option("--member", metavar="NAME", help="Only this member and its dependents, whatever its outcome.")
@click.option("--only", is_flag=True, help="With --member: not its dependents.")
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
        again = app.flows.replay(_job_of(app, flow, member), downstream=not only, actor=actor, reason=reason)
    if as_json:
        print_json({"id": flow, "jobs": again})
    else:
        many = "1 member runs" if len(again) == 1 else f"{len(again):,} members run"
        click.echo(f"flow {flow}: {many} again" if again else f"flow {flow}: nothing to run again")


@flows.command("set-join", cls=Command)
@click.argument("flow", metavar="FLOW")
@click.argument("member", metavar="MEMBER")
@click.option("--needs", type=click.Choice(get_args(Mode)), required=True, help="Number of dependencies it needs.")
@click.option("--needed", type=int, metavar="N", help="With --needs quorum: the number.")
@click.option("--rest", type=click.Choice(get_args(Rest)), default="run", help="What the others do. [default: run]")
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
        print_json(plain(of_join_change(flow, done)))
    else:
        many = {"all": f"all {done.upstreams:,}", "any": f"one of {done.upstreams:,}"}.get(
            done.join.mode, f"{done.join.needed:,} of {done.upstreams:,}"
        )
        how = "now needs" if done.changed else "already needed"
        click.echo(f"member {member} {how} {many} dependencies; it is {done.state}")


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
