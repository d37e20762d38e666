"""LangGraph: `durable(model)` and `ToolNode(tools, awrap_tool_call=tool_steps())` make a graph durable in its job.

Each response of the model and each tool call is a step of the job. A job that runs again runs the graph from its start,
and takes their values from the journal. Outside of a job, both do nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..errors import ConfigError, MissingExtra

try:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        ToolMessage,
        message_chunk_to_message,
        message_to_dict,
        messages_from_dict,
    )
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.runnables import Runnable, RunnableBinding
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
    from pydantic import PrivateAttr
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "langgraph"):
        raise
    raise MissingExtra("holdfast.contrib.langgraph", missing, "langgraph") from missing

from ..rules.budgets import Amount
from ..tasks.context import Context
from .model_calls import ModelBudget, Usage, agent_context, approved, model_step, tool_step

__all__ = ["durable", "tool_steps"]

Answer: TypeAlias = ToolMessage | Command[Any]
Execute: TypeAlias = Callable[[ToolCallRequest], Awaitable[Answer]]

_WHAT: Final = "a LangGraph agent"
_COMMANDS: Final = JsonPlusSerializer()


def durable(
    model: BaseChatModel,
    *,
    budget: str | None = None,
    reserve: Mapping[str, Amount] | None = None,
    streams: bool = True,
) -> BaseChatModel:
    """Return a model whose responses are steps of the job, for the nodes of a graph that await it.

    `budget` is charged for each response, of which `reserve` is the most: amounts of tokens, input_tokens,
    output_tokens or calls. The text goes to the job's stream, unless `streams` is false.
    """
    return _DurableModel(model, ModelBudget(budget, reserve or {}), streams=streams)


def tool_steps(*, approve: Collection[str] = ()) -> Callable[[ToolCallRequest, Execute], Awaitable[Answer]]:
    """Return what `ToolNode(tools, awrap_tool_call=…)` takes, so that each tool call is a step of the job.

    A call of a tool in `approve` suspends the job until the signal `approve:<tool>:<call id>` brings true or false.
    """
    names = frozenset(approve)

    async def wrapped(request: ToolCallRequest, execute: Execute) -> Answer:
        ctx = agent_context(_WHAT)
        if ctx is None:
            return await execute(request)
        tool, call_id = request.tool_call["name"], str(request.tool_call["id"])
        if tool in names and not (await approved(ctx, [(tool, call_id)]))[0]:
            return ToolMessage("The call was refused.", name=tool, tool_call_id=call_id, status="error")
        return await _tool_step(ctx, f"{tool}:{call_id}", tool, request, execute)

    return wrapped


async def _tool_step(ctx: Context, name: str, tool: str, request: ToolCallRequest, execute: Execute) -> Answer:
    async def call() -> dict[str, Any]:
        try:
            answer = await execute(request)
        except GraphBubbleUp as error:
            raise ConfigError(
                f"tool {tool!r} interrupts the graph, which no step can record; ask for approval by"
                f" tool_steps(approve=[{tool!r}]), or wait in a node of its own: await holdfast.current().wait_for(…)"
            ) from error
        if isinstance(answer, ToolMessage):
            return message_to_dict(answer)
        kind, data = _COMMANDS.dumps_typed(answer)
        return {"type": "command", "serialized": kind, "data": base64.b64encode(data).decode()}

    recorded = await tool_step(ctx, name, tool, call)
    if recorded["type"] == "command":
        command: Command[Any] = _COMMANDS.loads_typed((recorded["serialized"], base64.b64decode(recorded["data"])))
        return command
    (message,) = messages_from_dict([recorded])
    assert isinstance(message, ToolMessage)
    return message


class _DurableModel(BaseChatModel):
    """Asks a model for each response in a step, and streams its text to the job."""

    _model: BaseChatModel = PrivateAttr()
    _budget: ModelBudget = PrivateAttr()
    _streams: bool = PrivateAttr()

    def __init__(self, model: BaseChatModel, budget: ModelBudget, *, streams: bool) -> None:
        super().__init__()
        self._model, self._budget, self._streams = model, budget, streams

    @property
    def _llm_type(self) -> str:
        return self._model._llm_type

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[LanguageModelInput, AIMessage]:
        bound = self._model.bind_tools(tools, **options)
        if not isinstance(bound, RunnableBinding):
            raise ConfigError(f"{type(self._model).__name__}.bind_tools returns no binding; bind the tools yourself")
        return self.bind(**bound.kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        if agent_context(_WHAT) is not None:
            raise ConfigError(
                "model.invoke(…) cannot be a step; make the node an async def, and await model.ainvoke(…)"
            )
        return self._model._generate(messages, stop, run_manager, **options)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        ctx = agent_context(_WHAT)
        if ctx is None:
            return await self._model._agenerate(messages, stop, run_manager, **options)

        async def call() -> dict[str, Any]:
            ask = (
                self._streamed(ctx, messages, stop, options)
                if self._streams
                else self._model.ainvoke(messages, stop=stop, **options)
            )
            return message_to_dict(await ask)

        name = _place(run_manager.metadata if run_manager is not None else {})
        recorded = await model_step(ctx, name, call, _usage, self._budget)
        return ChatResult(generations=[ChatGeneration(message=messages_from_dict([recorded])[0])])

    async def _streamed(
        self, ctx: Context, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> BaseMessage:
        whole: AIMessage | None = None
        async for chunk in self._model.astream(messages, stop=stop, **options):
            # A model that cannot stream gives the whole message at once, which is no chunk.
            whole = whole + chunk if isinstance(whole, AIMessageChunk) else chunk
            if text := chunk.text:
                await ctx.emit(str(text))
        assert whole is not None, "LangChain raises where a model gave nothing"
        return message_chunk_to_message(whole) if isinstance(whole, AIMessageChunk) else whole


def _place(metadata: Mapping[str, Any]) -> str:
    """Return the name of a model call by its place in the graph, so that nodes may run at once."""
    if "langgraph_node" not in metadata:
        return "model"
    pulled, *place = metadata["langgraph_path"]
    # A node that was sent to several times in one step has a number.
    sent = (
        [] if pulled == "__pregel_pull" else [str(n) for n in place if isinstance(n, int) and not isinstance(n, bool)]
    )
    return ":".join([f"{metadata['langgraph_node']}.model", str(metadata["langgraph_step"]), *sent])


def _usage(recorded: Mapping[str, Any]) -> Usage:
    data = recorded["data"]
    used = data.get("usage_metadata") or {}
    model = (data.get("response_metadata") or {}).get("model_name")
    return Usage(model, used.get("input_tokens"), used.get("output_tokens"))
