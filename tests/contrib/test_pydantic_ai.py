"""Pydantic AI agents in durable jobs: killed at every commit, streamed, within a budget, approved by a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from holdfast import App, Context, JobFailed, RetryPolicy, SyncContext
from holdfast.contrib.pydantic_ai import HoldfastDurability
from holdfast.errors import ConfigError, InvalidAmount

from .agent_kit import Kills, Stores, within_budget

AT_ONCE = RetryPolicy(kind="none")
Delta = str | dict[int, DeltaToolCall]


class Script:
    """A model that calls two tools at once, then one that needs approval, and then answers."""

    def __init__(self, kills: Kills) -> None:
        self._kills = kills

    async def stream(self, messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Delta]:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        self._kills.called(f"model {turn}")
        if turn == 0:
            for word in ("Let ", "me ", "look. "):
                yield word
                await self._kills.said()
            yield {n: DeltaToolCall("find", f'{{"number": {n}}}', tool_call_id=f"call-{n}") for n in (1, 2)}
        elif turn == 1:
            yield {0: DeltaToolCall("refund", '{"number": 1}', tool_call_id="call-3")}
        else:
            parts = [part for message in messages for part in message.parts]
            for part in parts:
                if isinstance(part, ToolReturnPart) and part.tool_name == "refund":
                    yield f"It is {part.content}."
                    await self._kills.said()


def support(kills: Kills, **options: Any) -> Agent[None, str]:
    model = FunctionModel(stream_function=Script(kills).stream)
    agent = Agent(model, name="support", capabilities=[HoldfastDurability(**options)])

    @agent.tool_plain
    async def find(number: int) -> str:
        kills.called(f"find {number}")
        return f"order {number} was lost"

    @agent.tool_plain(requires_approval=True)
    def refund(number: int) -> str:
        kills.called(f"refund {number}")
        return "refunded"

    return agent


@pytest.mark.timeout(300)
def test_an_agent_killed_at_any_commit_repeats_only_the_call_in_flight(stores: Stores) -> None:
    kills = Kills(stores)
    agent = support(kills, budget="team", reserve={"tokens": 500})

    @stores.app.task
    async def answer(ctx: Context, question: str) -> str:
        return (await agent.run(question)).output

    kills.survived(
        lambda: answer.job("Where is my order?"),
        models=["model 0", "model 1", "model 2"],
        text="Let me look. It is refunded.",
    )


def test_concurrent_agents_never_exceed_their_budget(app: App) -> None:
    seen: list[Any] = []
    kills = Kills(Stores(app, str))

    class Metered(Script):
        async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Delta]:
            seen.append(app.budgets.get("team")["tokens"])
            yield "A short answer."

    model = FunctionModel(stream_function=Metered(kills).stream)
    agent = Agent(model, name="support", capabilities=[HoldfastDurability(budget="team", reserve={"tokens": 500})])

    @app.task
    async def answer(ctx: Context, n: int) -> str:
        return (await agent.run(f"question {n}")).output

    app.budget("team", tokens=1200)
    within_budget(app, [answer.job(n) for n in range(24)], seen)
    assert len(seen) == 24


def test_each_step_shows_its_model_its_tool_and_what_it_used(app: App) -> None:
    agent = Agent(
        TestModel(custom_output_text="done", model_name="fake"),
        name="support",
        capabilities=[HoldfastDurability(streams=False)],
    )

    @agent.tool_plain
    def find(number: int) -> str:
        return f"order {number}"

    @app.task
    async def answer(ctx: Context) -> str:
        return (await agent.run("Where is it?")).output

    job = answer.enqueue()
    app.drain()
    first, tool, last = app.jobs.steps(job.id)
    assert job.result() == "done"
    assert (first.key, last.key) == ("step:support.model#1", "step:support.model#2")
    assert first.attributes is not None and first.attributes.model == "fake"
    assert first.attributes.input_tokens and first.attributes.output_tokens
    assert tool.attributes is not None and tool.attributes.tool == "find"


MCP_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("orders")

@server.tool()
def locate(number: int) -> str:
    with open(sys.argv[0] + ".log", "a") as log:
        print(number, file=log)
    return f"order {number} is in Lyon"

server.run()
"""


def test_calls_of_an_mcp_server_are_steps(app: App, tmp_path: Path) -> None:
    script = tmp_path / "orders.py"
    script.write_text(MCP_SERVER)
    agent = Agent(
        TestModel(custom_output_text="done"),
        name="support",
        toolsets=[MCPToolset(script, id="orders")],
        capabilities=[HoldfastDurability(streams=False)],
    )

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def answer(ctx: Context) -> str:
        output = (await agent.run("Where is it?")).output
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return output

    job = answer.enqueue()
    app.drain()
    assert job.result() == "done"
    assert len((tmp_path / "orders.py.log").read_text().splitlines()) == 1
    names = [step.name.partition(":")[0] for step in app.jobs.steps(job.id)]
    assert names == ["support.mcp_server__orders.get_tools", "support.model", "support.locate", "support.model"]


def test_a_refused_tool_call_is_told_to_the_model(app: App) -> None:
    kills = Kills(Stores(app, str))
    agent = support(kills)

    @app.task
    async def answer(ctx: Context) -> str:
        result = await agent.run("Where is my order?")
        return str([part.content for part in result.all_messages()[-2].parts if isinstance(part, ToolReturnPart)])

    job = answer.enqueue()
    app.drain()
    (waiting,) = app.signals.pending()
    assert waiting.name == "approve:refund:call-3"
    app.signal(job.id, waiting.name, False)
    app.drain()
    assert job.result() == "['The call was refused.']"
    assert kills.calls["refund 1"] == 0


def test_an_agent_outside_of_a_job_runs_as_without_the_capability(app: App) -> None:
    agent = Agent(TestModel(custom_output_text="done"), name="support", capabilities=[HoldfastDurability()])
    assert asyncio.run(agent.run("Where is it?")).output == "done"


def test_an_agent_in_a_def_task_is_refused(app: App) -> None:
    agent = Agent(TestModel(), name="support", capabilities=[HoldfastDurability()])

    @app.task(max_attempts=1)
    def answer(ctx: SyncContext) -> str:
        return asyncio.run(agent.run("Where is it?")).output

    job = answer.enqueue()
    app.drain()
    with pytest.raises(JobFailed, match="durable only in an async def task"):
        job.result()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reserve": {"tokens": 5}}, "name that by budget="),
        ({"budget": "team"}, "needs amounts by dimension"),
        ({"budget": "team", "reserve": {"pages": 5}}, "names 'pages'"),
    ],
)
def test_a_wrong_budget_is_refused_when_the_agent_is_made(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, InvalidAmount), match=says):
        HoldfastDurability(**options)
