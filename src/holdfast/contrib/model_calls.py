"""Calls of language models as durable steps within a budget. The adapters for agent frameworks share this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeVar

from ..durable.journal import inside, site_of
from ..errors import ConfigError, NoCurrentJob
from ..names import check_name
from ..rules.budgets import Amount, check_amounts
from ..tasks.context import Context, current

T = TypeVar("T")
_DIMENSIONS: Final = ("tokens", "input_tokens", "output_tokens", "calls", "usd")


@dataclass(frozen=True, slots=True)
class Usage:
    """The model that a call used, and what it used of it; None is not known."""

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None

    def settled(self, reserved: Mapping[str, Amount]) -> dict[str, Amount]:
        """Return what to charge of each reserved amount: all of it where the use is not known."""
        known = [n for n in (self.input_tokens, self.output_tokens) if n is not None]
        used: dict[str, Amount | None] = {
            "tokens": sum(known) if known else None,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "calls": 1,
            "usd": self.cost,
        }
        return {
            dimension: amount if used[dimension] is None else used[dimension] or 0
            for dimension, amount in reserved.items()
        }


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """The budget that model calls are charged to, and the most that one call can use of it. Without a name, none."""

    name: str | None = None
    reserve: Mapping[str, Amount] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name is None and not self.reserve:
            return
        if self.name is None:
            raise ConfigError("reserve= says what one model call can use of a budget; name that by budget=")
        check_name("the budget's name", self.name)
        check_amounts("reserve= with budget=", self.reserve)
        if unknown := sorted(set(self.reserve) - set(_DIMENSIONS)):
            raise ConfigError(f"model calls are charged in {', '.join(_DIMENSIONS)}; reserve= names {unknown[0]!r}")


def agent_context(what: str) -> Context | None:
    """Return the context of the job that runs here, or None outside of a job; ConfigError in a `def` task."""
    try:
        found = current()
    except NoCurrentJob:
        return None
    if not isinstance(found, Context):
        raise ConfigError(
            f"{what} is durable only in an async def task; make {found.job.task!r} one, and await the agent"
        )
    return found


async def model_step(
    ctx: Context,
    name: str,
    call: Callable[[], Awaitable[T]],
    usage: Callable[[T], Usage],
    budget: ModelBudget,
) -> T:
    """Call a model as a step, with the most that it can use reserved, and what it used settled."""

    async def model() -> Any:
        value = await call()
        used = usage(value)
        ctx.describe(model=used.model, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost=used.cost)
        return value

    if budget.name is None:
        return await ctx.step(name, model)
    durable = ctx._calls()
    site = site_of(durable)
    # By the name of the call, because an agent may ask models concurrently.
    with inside(durable, f"{site.scope}{name}/", site.branch):
        reservation = ctx.reserve(budget.name, **budget.reserve)
    async with reservation as held:
        value: T = await ctx.step(name, model)
        await held.settle(**usage(value).settled(budget.reserve))
    return value


async def tool_step(ctx: Context, name: str, tool: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """Call a tool as a step."""

    async def run() -> Any:
        ctx.describe(tool=tool)
        return await call()

    return await ctx.step(name, run)


async def approved(ctx: Context, calls: Sequence[tuple[str, str]]) -> list[bool]:
    """Wait until a person has approved or refused calls of tools, each given by the tool's name and the call's id."""
    names = [f"approve:{tool}:{call_id}" for tool, call_id in calls]
    answer = await ctx.wait_for(*names, needed="all", type=bool)
    return answer if isinstance(answer, list) else [answer]
