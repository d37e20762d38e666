"""Runs a worker's event loop, and ends it although a handler may refuse to be cancelled.

`asyncio.run` waits without limit for what it cancels, and for threads that hang in calls of `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

logger: Final = logging.getLogger("holdfast.worker")

T = TypeVar("T")

_LAST_CHANCE: Final = 1.0


def run_to_its_end(main: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Like `asyncio.run`; what it returned, and whether all else has ended too. What has not runs no further."""
    runner = asyncio.Runner()
    lent = ThreadPoolExecutor(thread_name_prefix="asyncio")
    runner.get_loop().set_default_executor(lent)
    all_ended = False
    try:
        value = runner.run(main)
    finally:
        all_ended = _end(runner, lent)
    return value, all_ended


def _end(runner: asyncio.Runner, lent: ThreadPoolExecutor) -> bool:
    left = runner.run(_wind_up())
    if left:
        logger.warning("not waited for any longer, although cancelled: %s", "; ".join(left))
    if not _returns(lent):
        left.append("threads")
        logger.warning("threads of asyncio.to_thread hang in their calls; they are not waited for any longer")
    if left:
        runner.get_loop().close()
    else:
        runner.close()
    return not left


async def _wind_up() -> list[str]:
    """Cancel all tasks and close the generators; what does not end."""
    me = asyncio.current_task()
    rest = asyncio.all_tasks() - {me}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_LAST_CHANCE)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait({closing}, timeout=_LAST_CHANCE)
    return [_described(task) for task in asyncio.all_tasks() if task is not me]


def _described(task: asyncio.Task[Any]) -> str:
    """Its name, and the coroutines that it is in, from the outside to the inside."""
    coroutine: Any = task.get_coro()
    places = []
    while (place := getattr(coroutine, "__qualname__", None)) is not None:
        places.append(place)
        coroutine = getattr(coroutine, "cr_await", None)
    return f"{task.get_name()} ({' > '.join(places)})"


def _returns(lent: ThreadPoolExecutor) -> bool:
    ending = threading.Thread(target=lent.shutdown, name="holdfast-end", daemon=True)
    ending.start()
    ending.join(_LAST_CHANCE)
    return not ending.is_alive()
