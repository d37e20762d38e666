"""The OpenAI Agents SDK: `await run(agent, …)` in place of `Runner.run` makes an agent durable in its job.

Each response of a model, and each call of a function tool or an MCP server's tool, is a step of the job. Outside of a
job it is `Runner.run`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..errors import MissingExtra

try:
    from agents import (
        Agent,
        FunctionTool,
        Handoff,
        Model,
        ModelProvider,
        ModelResponse,
        MultiProvider,
        RunContextWrapper,
        Runner,
        RunResult,
        RunState,
        Tool,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
        TResponseInputItem,
    )
    from agents import Usage as TokenUsage
    from agents.exceptions import ModelBehaviorError
    from agents.items import TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from agents.tool_context import ToolContext
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseIncompleteEvent,
        ResponseOutputItemDoneEvent,
        ResponseTextDeltaEvent,
        ResponseUsage,
    )
    from pydantic import TypeAdapter
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "openai_agents"):
        raise
    raise MissingExtra("holdfast.contrib.openai_agents", missing, "openai_agents") from missing

from ..rules.budgets import Amount
from .model_calls import ModelBudget, Usage, agent_context, approved, model_step, tool_step

__all__ = ["durable", "run"]

_WHAT: Final = "an agent of the OpenAI Agents SDK"
_Response: Final = TypeAdapter(ModelResponse)
_Structured = ToolOutputText | ToolOutputImage | ToolOutputFileContent
_Output: Final[TypeAdapter[Any]] = TypeAdapter(str | _Structured | list[_Structured] | Any)


async def run(
    agent: Agent[Any],
    input: str | list[TResponseInputItem] | RunState[Any],
    *,
    budget: str | None = None,
    reserve: Mapping[str, Amount] | None = None,
    streams: bool = True,
    approvals: bool = True,
    **options: Any,
) -> RunResult:
    """Run an agent as `Runner.run` does, with its options; durably in a job.

    A tool that needs approval suspends the job until the signal `approve:<tool>:<call id>` brings true or false;
    `approvals=False` returns the interruptions. The other options are those of `durable`.
    """
    twin = durable(agent, budget=budget, reserve=reserve, streams=streams)
    result = await Runner.run(twin, input, **options)
    ctx = agent_context(_WHAT)
    while ctx is not None and approvals and (waiting := result.interruptions):
        state = result.to_state()
        answers = await approved(ctx, [(str(item.name), str(item.call_id)) for item in waiting])
        for item, yes in zip(waiting, answers, strict=True):
            state.approve(item) if yes else state.reject(item)
        result = await Runner.run(twin, state, **options)
    return result


def durable(
    agent: Agent[Any],
    *,
    budget: str | None = None,
    reserve: Mapping[str, Amount] | None = None,
    streams: bool = True,
    provider: ModelProvider | None = None,
) -> Agent[Any]:
    """Return a copy of an agent, and of those it hands off to, whose models and tools are called as steps.

    `budget` is charged for each response, of which `reserve` is the most: amounts of tokens, input_tokens,
    output_tokens or calls. The text of the models goes to the job's stream, unless `streams` is false. `provider`
    finds models by name.
    """
    terms = _Terms(ModelBudget(budget, reserve or {}), streams, provider or MultiProvider())
    return _twin(agent, terms, {})


@dataclass(frozen=True, slots=True)
class _Terms:
    budget: ModelBudget
    streams: bool
    provider: ModelProvider


def _twin(agent: Agent[Any], terms: _Terms, known: dict[int, Agent[Any]]) -> Agent[Any]:
    if (found := known.get(id(agent))) is not None:
        return found
    model = agent.model if isinstance(agent.model, Model) else terms.provider.get_model(agent.model)
    if isinstance(model, _DurableModel):
        return agent
    twin = agent.clone(
        model=_DurableModel(model, agent.name, terms),
        model_settings=agent.model_settings,
        tools=[_durable_tool(tool, agent.name) for tool in agent.tools],
    )
    # Agents may hand off to each other in a circle.
    known[id(agent)] = twin
    twin.handoffs = [
        _handoff(one, terms, known) if isinstance(one, Handoff) else _twin(one, terms, known) for one in agent.handoffs
    ]
    twin.get_mcp_tools = partial(_mcp_tools, twin.get_mcp_tools, agent.name)  # type: ignore[method-assign]
    return twin


def _handoff(handoff: Handoff[Any, Any], terms: _Terms, known: dict[int, Agent[Any]]) -> Handoff[Any, Any]:
    twin, invoke = copy.copy(handoff), handoff.on_invoke_handoff

    async def invoked(context: RunContextWrapper[Any], arguments: str) -> Any:
        return _twin(await invoke(context, arguments), terms, known)

    twin.on_invoke_handoff = invoked
    return twin


async def _mcp_tools(listed: Any, agent: str, context: RunContextWrapper[Any]) -> list[Tool]:
    return [_durable_tool(tool, agent) for tool in await listed(context)]


def _durable_tool(tool: Tool, agent: str) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool
    twin = copy.copy(tool)
    invoke = twin.on_invoke_tool

    async def invoked(context: ToolContext[Any], arguments: str) -> Any:
        async def call() -> Any:
            # What the SDK would turn into text anyhow becomes text before it is recorded.
            return _Output.dump_python(await invoke(context, arguments), mode="json", fallback=str)

        ctx = agent_context(_WHAT)
        if ctx is None:
            return await invoke(context, arguments)
        # By its id, because an agent calls tools concurrently.
        name = f"{agent}.{tool.name}:{context.tool_call_id}"
        return _Output.validate_python(await tool_step(ctx, name, tool.name, call))

    twin.on_invoke_tool = invoked
    return twin


class _DurableModel(Model):
    """Asks a model for each response in a step, and streams its text to the job."""

    def __init__(self, model: Model, agent: str, terms: _Terms) -> None:
        self._model = model
        self._agent = agent
        self._terms = terms

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        ctx = agent_context(_WHAT)
        if ctx is None:
            return await self._model.get_response(*args, **kwargs)

        async def call() -> Any:
            asked = self._streamed if self._terms.streams else self._model.get_response
            return _Response.dump_python(await asked(*args, **kwargs), mode="json")

        def usage(recorded: Any) -> Usage:
            used = _Response.validate_python(recorded).usage
            return Usage(getattr(self._model, "model", None), used.input_tokens, used.output_tokens)

        recorded = await model_step(ctx, f"{self._agent}.model", call, usage, self._terms.budget)
        return _Response.validate_python(recorded)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Stream from the model; in a job, the response as one event, because a recorded one has no others."""
        if agent_context(_WHAT) is None:
            async for event in self._model.stream_response(*args, **kwargs):
                yield event
            return
        yield _completed(await self.get_response(*args, **kwargs))

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    async def _streamed(self, *args: Any, **kwargs: Any) -> ModelResponse:
        ctx, items = agent_context(_WHAT), []
        async for event in self._model.stream_response(*args, **kwargs):
            if isinstance(event, ResponseTextDeltaEvent) and event.delta and ctx is not None:
                await ctx.emit(event.delta)
            elif isinstance(event, ResponseOutputItemDoneEvent):
                items.append(event.item)
            elif isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent):
                # Some providers send the items on the way only.
                return _response(event.response, event.response.output or items)
        raise ModelBehaviorError("the stream of the model ended without a response")


def _response(response: Response, output: list[Any]) -> ModelResponse:
    usage = TokenUsage()
    if (used := response.usage) is not None:
        usage = TokenUsage(
            requests=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens_details=used.output_tokens_details,
        )
    return ModelResponse(output=output, usage=usage, response_id=response.id)


def _completed(made: ModelResponse) -> ResponseCompletedEvent:
    used = made.usage
    usage = ResponseUsage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.total_tokens,
        input_tokens_details=used.input_tokens_details,
        output_tokens_details=used.output_tokens_details,
    )
    response = Response(
        id=made.response_id or "recorded", created_at=0, model="recorded", object="response", output=made.output,
        parallel_tool_calls=True, tool_choice="auto", tools=[], usage=usage,
    )  # fmt: skip
    return ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")
