"""The one task of random flows. What it does is told by its arguments, never by when it runs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import holdfast
from tests.acceptance.flow_model import Dag, How, Node, children_of
from tests.acceptance.jobs import note

app = holdfast.App()


@app.task(max_attempts=None, retry=holdfast.RetryPolicy(kind="fixed", initial=0.01))
async def node(
    ctx: holdfast.Context, name: str, how: How, grows: tuple[How, ...] = (), given: tuple[str | None, ...] = ()
) -> str:
    """Start, some work, an end of the kind that was asked for."""
    note("S", ctx)
    if grows:
        await grow(ctx, name, grows)
    await asyncio.sleep(random.uniform(0.0, 0.02))
    match how:
        case "fail":
            note("E", ctx)
            raise holdfast.Fail("as asked")
        case "flaky" if ctx.attempt == 1:
            raise holdfast.Retry("once more", after=0.01)
        case "cancel":
            note("E", ctx)
            await app.jobs.acancel(ctx.id)
            await asyncio.sleep(60)
    note("E", ctx)
    return name


async def grow(ctx: holdfast.Context, name: str, grows: tuple[How, ...]) -> None:
    leaves_and_last = children_of(Node("me", "succeed", grows=grows))
    async with ctx.flow() as flow:
        made: dict[str, holdfast.flows.Member[str]] = {}
        for child in leaves_and_last:
            short = child.name.removeprefix("me/")
            after = [made[up].ended for up, _ in child.upstreams]
            made[child.name] = flow.add(node.job(f"{name}/{short}", child.how), name=short, after=after)


def build(flow: holdfast.Flow, dag: Dag, task: holdfast.Task[..., Any]) -> None:
    """Add a whole flow as its plan says."""
    made: dict[str, holdfast.flows.Member[Any]] = {}
    for plan in dag.nodes:
        ends = {"success": lambda m: m.succeeded, "failure": lambda m: m.failed, "any": lambda m: m.ended}
        upstreams = [ends[policy](made[up]) for up, policy in plan.upstreams]
        given = [made[up].output_or(None) for up, _ in plan.upstreams] if plan.takes else []
        match plan.mode:
            case "any":
                after = holdfast.any_of(*upstreams, rest=plan.rest)
            case "quorum":
                after = holdfast.quorum(plan.needed, *upstreams, rest=plan.rest)
            case _:
                after = holdfast.all_of(*upstreams)
        job = task.job(plan.name, plan.how, list(plan.grows), given)
        made[plan.name] = flow.add(job, name=plan.name, after=after)
