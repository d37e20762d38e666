"""Agents of the OpenAI Agents SDK in durable jobs: killed at every commit, streamed, budgeted, approved by a person."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, Runner, ToolOutputImage, Usage, function_tool, handoff, set_tracing_disabled
from agents.items import TResponseStreamEvent
from agents.mcp import MCPServerStdio
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from holdfast import App, Context, JobFailed, RetryPolicy, SyncContext
from holdfast.contrib.openai_agents import durable, run

from .agent_kit import Kills, Stores, within_budget
from .test_pydantic_ai import MCP_SERVER

AT_ONCE = RetryPolicy(kind="none")
USED = Usage(requests=1, input_tokens=50, output_tokens=10, total_tokens=60)


@pytest.fixture(autouse=True)
def _no_traces_are_sent() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


class Answering(ScriptedModel):
    """The SDK's own fake model, which answers each call by a function of what the tools have returned."""

    def __init__(
        self, answer: Callable[[list[Any]], list[Any]], said: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__()
        self._answer = answer
        self._said = said

    def _next(self, call: ModelCall) -> ModelStep:
        items = [] if isinstance(call.input, str) else call.input
        return ModelStep(
            output=self._answer([one for one in items if one.get("type") == "function_call_output"]), usage=USED
        )

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self.enqueue(ModelStep.respond(self._next))
        return await super().get_response(*args, **kwargs)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        self.enqueue(ModelStep.respond(self._next))
        async for event in super().stream_response(*args, **kwargs):
            yield event
            if event.type == "response.output_text.delta" and self._said is not None:
                await self._said()


def support(kills: Kills) -> Agent[Any]:
    def answer(outputs: list[Any]) -> list[Any]:
        kills.called(f"model {len(outputs)}")
        if not outputs:
            calls = [function_call("find", {"number": n}, call_id=f"call-{n}") for n in (1, 2)]
            return [assistant_message("Let me look. "), *calls]
        if len(outputs) == 2:
            return [function_call("refund", {"number": 1}, call_id="call-3")]
        return [assistant_message(f"It is {outputs[-1]['output']}.")]

    @function_tool
    async def find(number: int) -> str:
        kills.called(f"find {number}")
        return f"order {number} was lost"

    @function_tool(needs_approval=True)
    def refund(number: int) -> str:
        kills.called(f"refund {number}")
        return "refunded"

    return Agent("support", model=Answering(answer, kills.said), tools=[find, refund])


@pytest.mark.timeout(300)
def test_an_agent_killed_at_any_commit_repeats_only_the_call_in_flight(stores: Stores) -> None:
    kills = Kills(stores)
    agent = support(kills)

    @stores.app.task
    async def answer(ctx: Context, question: str) -> str:
        return str((await run(agent, question, budget="team", reserve={"tokens": 500})).final_output)

    kills.survived(
        lambda: answer.job("Where is my order?"),
        models=["model 0", "model 2", "model 3"],
        text="Let me look. It is refunded.",
    )


def test_concurrent_agents_never_exceed_their_budget(app: App) -> None:
    seen: list[Any] = []

    def answer(_: list[Any]) -> list[Any]:
        seen.append(app.budgets.get("team")["tokens"])
        return [assistant_message("A short answer.")]

    agent = Agent("support", model=Answering(answer))

    @app.task
    async def ask(ctx: Context, n: int) -> str:
        return str((await run(agent, f"question {n}", budget="team", reserve={"tokens": 500})).final_output)

    app.budget("team", tokens=1200)
    within_budget(app, [ask.job(n) for n in range(24)], seen)
    assert len(seen) == 24


def _ran(app: App, agent: Agent[Any], **options: Any) -> Any:
    """Run an agent in a job whose first attempt fails at the end; return the job."""

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def ask(ctx: Context) -> str:
        output = str((await run(agent, "Where is it?", **options)).final_output)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return output

    job = ask.enqueue()
    app.drain()
    return job


def test_an_agent_that_hands_off_is_durable_behind_the_handoff(app: App) -> None:
    asked: list[str] = []

    def told(name: str, *output: Any) -> Callable[[list[Any]], list[Any]]:
        def answer(_: list[Any]) -> list[Any]:
            asked.append(name)
            return list(output)

        return answer

    refunds = Agent("refunds", model=Answering(told("refunds", assistant_message("It is refunded."))))
    orders = Agent("orders", model=Answering(told("orders", function_call("transfer_to_refunds", {}, call_id="b"))))
    orders.handoffs = [handoff(refunds)]
    triage = Agent("triage", model=Answering(told("triage", function_call("transfer_to_orders", {}, call_id="a"))))
    triage.handoffs = [orders]
    refunds.handoffs = [triage]
    job = _ran(app, triage)
    assert job.result() == "It is refunded."
    assert asked == ["triage", "orders", "refunds"]
    assert [step.name for step in app.jobs.steps(job.id)] == ["triage.model", "orders.model", "refunds.model"]


def test_calls_of_an_mcp_server_are_steps(app: App, tmp_path: Path) -> None:
    script = tmp_path / "orders.py"
    script.write_text(MCP_SERVER)

    def answer(outputs: list[Any]) -> list[Any]:
        return [assistant_message("done") if outputs else function_call("locate", {"number": 1}, call_id="a")]

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def ask(ctx: Context) -> str:
        server = MCPServerStdio({"command": sys.executable, "args": [str(script)]})
        async with server:
            agent = Agent("support", model=Answering(answer), mcp_servers=[server])
            output = str((await run(agent, "Where is it?", streams=False)).final_output)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return output

    job = ask.enqueue()
    app.drain()
    assert job.result() == "done"
    assert len((tmp_path / "orders.py.log").read_text().splitlines()) == 1
    assert [step.name for step in app.jobs.steps(job.id)] == ["support.model", "support.locate:a", "support.model"]


def test_what_a_tool_returns_reaches_the_model_alike_when_it_is_recorded(app: App) -> None:
    given: list[Any] = []

    @function_tool
    def picture() -> ToolOutputImage:
        return ToolOutputImage(image_url="https://shop.example/1001.png")

    @function_tool
    def odd() -> Path:
        return Path("/orders/1001")

    def answer(outputs: list[Any]) -> list[Any]:
        given.append([one["output"] for one in outputs])
        calls = [function_call(name, {}, call_id=name) for name in ("picture", "odd")]
        return [assistant_message("done")] if outputs else calls

    agent = Agent("support", model=Answering(answer), tools=[picture, odd])
    asyncio.run(Runner.run(agent, "Where is it?"))
    plain = given.pop()
    assert _ran(app, agent).result() == "done"
    assert given[-1] == plain


def test_a_streamed_run_gives_the_recorded_response_as_one_event(app: App) -> None:
    agent = durable(Agent("support", model=Answering(lambda _: [assistant_message("done")])))

    @app.task
    async def ask(ctx: Context) -> str:
        result = Runner.run_streamed(agent, "Where is it?")
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    job = ask.enqueue()
    app.drain()
    assert job.result() == "done"
    assert [step.name for step in app.jobs.steps(job.id)] == ["support.model"]
    assert "".join(frame.data for frame in app.streams.read(job.id).frames) == "done"


def test_an_agent_outside_of_a_job_runs_as_ever(app: App) -> None:
    agent = Agent("support", model=Answering(lambda _: [assistant_message("done")]))
    assert asyncio.run(run(agent, "Where is it?")).final_output == "done"


def test_an_agent_in_a_def_task_is_refused(app: App) -> None:
    agent = Agent("support", model=Answering(lambda _: [assistant_message("done")]))

    @app.task(max_attempts=1)
    def ask(ctx: SyncContext) -> str:
        return str(asyncio.run(run(agent, "Where is it?")).final_output)

    job = ask.enqueue()
    app.drain()
    with pytest.raises(JobFailed, match="durable only in an async def task"):
        job.result()
