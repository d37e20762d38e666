"""Run several durable calls concurrently, each in a branch whose calls are numbered on their own.

A branch that must wait does not interrupt the steps of the others: the run pauses when all have ended or wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ..model.outcomes import Outcome, Snoozed
from ..rules.steps import Call
from ..tasks.context import Suspension
from .calls import Durable, ending
from .journal import Branch, inside
from .step_io import all_on_threads


async def gather(durable: Durable, awaitables: Sequence[Awaitable[Any]]) -> tuple[Any, ...]:
    """Run the branches on the event loop."""
    return await _gather(durable, _number(durable), awaitables)


async def gather_in_threads(durable: Durable, calls: Sequence[Callable[[], Any]]) -> tuple[Any, ...]:
    """Run the branches on threads; the calling thread waits."""
    return await _gather_in_threads(durable, _number(durable), calls)


@ending
async def _gather(durable: Durable, call: Call, awaitables: Sequence[Awaitable[Any]]) -> tuple[Any, ...]:
    branches, scopes = _branches(call, len(awaitables))

    async def run(branch: Branch, scope: str, awaitable: Awaitable[Any]) -> Any:
        with inside(durable, scope, branch):
            return await awaitable

    for branch, scope, awaitable in zip(branches, scopes, awaitables, strict=True):
        branch.task = asyncio.create_task(run(branch, scope, awaitable))
    tasks: list[asyncio.Task[Any]] = [branch.task for branch in branches]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    failures = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    await _conclude(durable, branches, failures)
    return tuple(task.result() for task in tasks)


@ending
async def _gather_in_threads(durable: Durable, call: Call, calls: Sequence[Callable[[], Any]]) -> tuple[Any, ...]:
    branches, scopes = _branches(call, len(calls))
    ended = all_on_threads(
        [
            partial(_in_branch, durable, scope, branch, one)
            for branch, scope, one in zip(branches, scopes, calls, strict=True)
        ]
    )
    await _conclude(durable, branches, [error for one in ended if (error := _failure_of(one)) is not None])
    return tuple(one.result() for one in ended)


def _number(durable: Durable) -> Call:
    return durable.number("gather", "", "")


def _branches(call: Call, n: int) -> tuple[list[Branch], list[str]]:
    return [Branch() for _ in range(n)], [f"{call.name}gather#{call.nth}.{i}/" for i in range(1, n + 1)]


def _in_branch(durable: Durable, scope: str, branch: Branch, call: Callable[[], Any]) -> Any:
    with inside(durable, scope, branch):
        return call()


def _failure_of(one: Future[Any]) -> BaseException | None:
    error = one.exception()
    return None if isinstance(error, Suspension) else error


async def _conclude(durable: Durable, branches: Sequence[Branch], failures: Sequence[BaseException]) -> None:
    """Raise a failure first, because the handler may catch it. Otherwise pause the run, if a branch must wait."""
    if failures:
        raise failures[0]
    wishes = [branch.wish for branch in branches if branch.wish is not None]
    if wishes:
        await durable.pause(_first(wishes))
    durable.check()


def _first(wishes: Sequence[Outcome]) -> Outcome:
    """Choose a signal before a sleep, whose end is recorded and passes meanwhile; of sleeps, the shortest."""
    sleeps = [wish for wish in wishes if isinstance(wish, Snoozed)]
    waits = [wish for wish in wishes if not isinstance(wish, Snoozed)]
    return waits[0] if waits else min(sleeps, key=lambda sleep: sleep.delay)
