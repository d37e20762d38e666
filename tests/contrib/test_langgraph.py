"""LangGraph agents in durable jobs: killed at every commit, streamed, within a budget, approved by a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt

from holdfast import App, Context, JobFailed, RetryPolicy
from holdfast.contrib.langgraph import durable, tool_steps

from .agent_kit import Kills, Stores, within_budget

AT_ONCE = RetryPolicy(kind="none")
Graph = CompiledStateGraph[Any, Any, Any, Any]
USED = {"input_tokens": 50, "output_tokens": 10, "total_tokens": 60}


async def _nothing() -> None:
    return None


class Answering(BaseChatModel):
    """A fake model that answers by a function of the messages, word by word."""

    answer: Callable[[list[BaseMessage]], AIMessage]
    said: Callable[[], Awaitable[None]] = _nothing

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[one.name for one in tools])

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        message = self.answer(messages)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message = self.answer(messages)
        for word in str(message.content).split(" "):
            if word:
                yield ChatGenerationChunk(message=AIMessageChunk(f"{word} "))
                await self.said()
        calls = [
            {"name": call["name"], "args": f'{{"number": {call["args"]["number"]}}}', "id": call["id"], "index": n}
            for n, call in enumerate(message.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=calls, usage_metadata=USED))  # type: ignore[arg-type]


class Silent(Answering):
    """A fake model that cannot stream."""

    _astream = BaseChatModel._astream


def agent(model: BaseChatModel, tools: list[BaseTool], **options: Any) -> Graph:
    """The graph of every agent: the model, the tools that it asks for, and again."""
    bound = model.bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools, awrap_tool_call=tool_steps(**options)))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


async def asked(graph: Graph, question: str = "Where is my order?") -> str:
    return str((await graph.ainvoke({"messages": [("user", question)]}))["messages"][-1].text)


def called(name: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"name": name, "args": {"number": n}, "id": f"{name}-{n}"} for n in numbers]


def support(kills: Kills) -> Graph:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        found = [one for one in messages if isinstance(one, ToolMessage)]
        kills.called(f"model {len(found)}")
        if not found:
            return AIMessage("Let me look.", tool_calls=called("find", 1, 2))
        if len(found) == 2:
            return AIMessage("", tool_calls=called("refund", 1))
        return AIMessage(f"It is {found[-1].content}.")

    @tool
    async def find(number: int) -> str:
        """Find an order."""
        kills.called(f"find {number}")
        return f"order {number} was lost"

    @tool
    def refund(number: int) -> str:
        """Pay an order back."""
        kills.called(f"refund {number}")
        return "refunded"

    model = durable(Answering(answer=answer, said=kills.said), budget="team", reserve={"tokens": 500})
    return agent(model, [find, refund], approve=["refund"])


@pytest.mark.timeout(300)
def test_an_agent_killed_at_any_commit_repeats_only_the_call_in_flight(stores: Stores) -> None:
    kills = Kills(stores)
    graph = support(kills)

    @stores.app.task
    async def answer(ctx: Context, question: str) -> str:
        return await asked(graph, question)

    kills.survived(
        lambda: answer.job("Where is my order?"),
        models=["model 0", "model 2", "model 3"],
        text="Let me look. It is refunded. ",
    )


def test_concurrent_agents_never_exceed_their_budget(app: App) -> None:
    seen: list[Any] = []

    def answer(_: list[BaseMessage]) -> AIMessage:
        seen.append(app.budgets.get("team")["tokens"])
        return AIMessage("A short answer.")

    graph = agent(durable(Answering(answer=answer), budget="team", reserve={"tokens": 500}), [])

    @app.task
    async def ask(ctx: Context, n: int) -> str:
        return await asked(graph)

    app.budget("team", tokens=1200)
    within_budget(app, [ask.job(n) for n in range(24)], seen)
    assert len(seen) == 24


def _run(app: App, graph: Graph, **options: Any) -> Any:
    """Run a graph in a job whose first attempt fails at the end; return the job."""

    @app.task(retry=AT_ONCE, max_attempts=2)
    async def ask(ctx: Context) -> str:
        output = await asked(graph)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return output

    job = ask.enqueue()
    app.drain()
    return job


def test_nodes_that_run_at_once_have_steps_of_their_own(app: App) -> None:
    prompts: list[str] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        prompts.append(str(messages[-1].content))
        return AIMessage(prompts[-1].upper())

    app.budget("team", tokens=1_000)
    model = durable(Answering(answer=answer), budget="team", reserve={"tokens": 500})

    async def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("write", write)
    graph.add_conditional_edges(
        START, lambda _: [Send("write", {"messages": [("user", word)]}) for word in ("one", "two")]
    )
    job = _run(app, graph.compile())
    assert job.result().strip() == "TWO"
    assert sorted(prompts) == ["one", "two"]
    names = sorted(step.name for step in app.jobs.steps(job.id) if step.kind == "step")
    assert names == ["write.model:1:0", "write.model:1:1"]


def test_a_refused_call_and_a_tool_that_returns_a_command_reach_the_graph(app: App) -> None:
    calls: list[str] = []

    @tool
    async def pay(number: int) -> str:
        """Pay."""
        calls.append("pay")
        return "paid"

    @tool
    async def close(number: int) -> Command[Any]:
        """Close."""
        calls.append("close")
        return Command(update={"messages": [ToolMessage("closed", tool_call_id="close-2")]})

    def answer(messages: list[BaseMessage]) -> AIMessage:
        found = [str(one.content) for one in messages if isinstance(one, ToolMessage)]
        return (
            AIMessage(",".join(found)) if found else AIMessage("", tool_calls=[*called("pay", 1), *called("close", 2)])
        )

    job = _run(app, agent(durable(Answering(answer=answer)), [pay, close], approve=["pay"]))
    app.signal(job.id, "approve:pay:pay-1", False)
    app.drain()
    assert job.result().strip() == "The call was refused.,closed"
    assert calls == ["close"]


def test_a_tool_that_interrupts_says_how_to_ask_for_approval(app: App) -> None:
    @tool
    async def pay(number: int) -> str:
        """Pay."""
        return str(interrupt("may I?"))

    graph = agent(durable(Answering(answer=lambda _: AIMessage("", tool_calls=called("pay", 1)))), [pay])

    @app.task(max_attempts=1)
    async def ask(ctx: Context) -> str:
        return await asked(graph)

    job = ask.enqueue()
    app.drain()
    with pytest.raises(JobFailed, match="approval by tool_steps"):
        job.result()


def test_a_node_that_does_not_await_the_model_is_refused(app: App) -> None:
    model = durable(FakeListChatModel(responses=["done"]))

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    runs = graph.compile()

    @app.task(max_attempts=1)
    async def ask(ctx: Context) -> str:
        return await asked(runs)

    job = ask.enqueue()
    app.drain()
    with pytest.raises(JobFailed, match=r"await model.ainvoke"):
        job.result()
    assert asyncio.run(asked(runs)) == "done"


def test_a_graph_outside_of_a_job_runs_as_ever(app: App) -> None:
    @tool
    async def find(number: int) -> str:
        """Find an order."""
        return f"order {number}"

    def answer(messages: list[BaseMessage]) -> AIMessage:
        found = messages[-1]
        return (
            AIMessage(str(found.content))
            if isinstance(found, ToolMessage)
            else AIMessage("", tool_calls=called("find", 1))
        )

    assert asyncio.run(asked(agent(durable(Answering(answer=answer)), [find], approve=["find"]))) == "order 1"


def test_a_model_that_cannot_stream_is_heard_all_the_same(app: App) -> None:
    job = _run(app, agent(durable(Silent(answer=lambda _: AIMessage("done"))), []))
    assert job.result() == "done"
    assert [frame.data for frame in app.streams.read(job.id).frames] == ["done"]
