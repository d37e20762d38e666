"""Pydantic AI: `Agent(…, capabilities=[HoldfastDurability()])` makes an agent durable in the tasks that run it.

Every request to a model, every tool call and every call to an MCP server is a step of the job. Outside of a job the
agent runs as it does without the capability.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeVar

from ..errors import MissingExtra

try:
    from pydantic_ai import durable_exec
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.durable_exec import BaseDurabilityCapability, DurabilityEngineSpec, DurableOperation
    from pydantic_ai.messages import (
        AgentStreamEvent,
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
except ModuleNotFoundError as missing:
    if not MissingExtra.explains(missing, "pydantic_ai"):
        raise
    raise MissingExtra("holdfast.contrib.pydantic_ai", missing, "pydantic_ai") from missing

from ..rules.budgets import Amount
from .model_calls import ModelBudget, Usage, agent_context, approved, model_step, tool_step

__all__ = ["HoldfastDurability"]

_WHAT: Final = "a Pydantic AI agent"
ParamsT = TypeVar("ParamsT")
WireT = TypeVar("WireT")
ResultT = TypeVar("ResultT")


@dataclass(init=False, kw_only=True)
class HoldfastDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable. `budget` is charged for each request to a model, of which `reserve` is the most.

    `reserve` has amounts of tokens, input_tokens, output_tokens, calls or usd. The agent's text goes to the job's
    stream; `streams=False` asks models without streaming. A tool that requires approval suspends the job until the
    signal `approve:<tool>:<tool call id>` brings true or false; `approvals=False` leaves it to the agent.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Holdfast",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=durable_exec.JSON_CODEC,
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        budget: str | None = None,
        reserve: Mapping[str, Amount] | None = None,
        streams: bool = True,
        approvals: bool = True,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
    ) -> None:
        handler = _emitting(event_stream_handler) if streams else event_stream_handler
        super().__init__(models=models, event_stream_handler=handler, name=name)
        self._budget = ModelBudget(budget, reserve or {})
        self._approvals = approvals

    @property
    def in_durable_context(self) -> bool:
        return agent_context(_WHAT) is not None

    def get_durable_operation_backend(self) -> durable_exec.DurableOperationBackend[None]:
        return _Steps(self.name, self._budget)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Wait for the approval of each tool call that needs one."""
        job = agent_context(_WHAT)
        if job is None or not self._approvals or not requests.approvals:
            return None
        answers = await approved(job, [(call.tool_name, call.tool_call_id) for call in requests.approvals])
        return requests.build_results(
            approvals={
                call.tool_call_id: yes or ToolDenied("The call was refused.")
                for call, yes in zip(requests.approvals, answers, strict=True)
            }
        )


class _Steps(durable_exec.DurableOperationBackend[None]):
    """Runs each operation of an agent as a step of the job."""

    def __init__(self, agent: str, budget: ModelBudget) -> None:
        self._agent = agent
        self._budget = budget

    def bind(self, operation: DurableOperation[ParamsT, WireT, ResultT]) -> _BoundStep[ParamsT, WireT, ResultT]:
        return _BoundStep(operation, self._agent, self._budget)

    def config_for_tool(self, operation: object, *, tool: object | None, tool_name: str) -> None:
        return None

    def registrations(self) -> Sequence[Callable[..., object]]:
        return ()


class _BoundStep(durable_exec.BoundDurableOperation[ParamsT, WireT, ResultT]):
    def __init__(self, operation: DurableOperation[ParamsT, WireT, ResultT], agent: str, budget: ModelBudget) -> None:
        self._operation = operation
        self._agent = agent
        self._budget = budget

    @property
    def operation(self) -> DurableOperation[ParamsT, WireT, ResultT]:
        return self._operation

    async def __call__(self, params: ParamsT, *, config: object | None = None) -> ResultT:
        operation, id = self._operation, self._operation.operation_id
        ctx = agent_context(_WHAT)
        if ctx is None or isinstance(id, durable_exec.EventStreamHandlerId):
            # An event that is seen again does no harm, and would cost a commit.
            return await operation.handler(params)

        async def call() -> object:
            with durable_exec.durable_unit_scope():
                return operation.result_codec.dump(await operation.handler(params))

        def usage(text: object) -> Usage:
            return _usage(operation.result_codec.load(text))

        if isinstance(id, durable_exec.ModelRequestId):
            return operation.result_codec.load(await model_step(ctx, f"{self._agent}.model", call, usage, self._budget))
        name, tool = _name(id, params)
        return operation.result_codec.load(await tool_step(ctx, f"{self._agent}.{name}", tool, call))


def _name(id: durable_exec.DurableOperationId, params: Any) -> tuple[str, str]:
    """Return the name of a step, and the tool."""
    if isinstance(id, durable_exec.ToolsetCallToolId):
        # By its id, because an agent calls tools concurrently.
        return f"{params.name}:{params.ctx.tool_call_id}", params.name
    what = durable_exec.JournalOperationNamer("").operation_name(id).removeprefix("__")
    if isinstance(id, durable_exec.ToolsetValidateToolArgumentsId):
        return f"{what}:{params.name}:{params.ctx.tool_call_id}", params.name
    return what, what


def _usage(response: object) -> Usage:
    if not isinstance(response, ModelResponse):
        return Usage()
    used = response.usage
    return Usage(response.model_name, used.input_tokens, used.output_tokens, _cost(response))


def _cost(response: ModelResponse) -> Decimal | None:
    try:
        return response.cost().total_price if response.model_name else None
    except (LookupError, ValueError):  # The price or the use is not known.
        return None


def _emitting(handler: EventStreamHandler[AgentDepsT] | None) -> EventStreamHandler[AgentDepsT]:
    """Return a handler that emits the text of the model to the job's stream, and calls another."""

    async def emit(ctx: RunContext[AgentDepsT], events: AsyncIterable[AgentStreamEvent]) -> None:
        async def passed_on() -> AsyncIterable[AgentStreamEvent]:
            async for event in events:
                if (text := _text(event)) and (job := agent_context(_WHAT)) is not None:
                    await job.emit(text)
                yield event

        if handler is not None:
            await handler(ctx, passed_on())
        else:
            async for _ in passed_on():
                pass

    return emit


def _text(event: AgentStreamEvent) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
