"""Runs a worker's event loop, and ends it even if a handler ignores cancellation.

`asyncio.run` waits without limit for cancelled tasks, and for threads that hang in calls of `asyncio.to_thread`.
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
    """Run like `asyncio.run`; return the result, and whether every task and thread ended. The others are dropped."""
    runner = asyncio.Runner()
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
    runner.get_loop().set_default_executor(threads)
    all_ended = False
    try:
        value = runner.run(main)
    finally:
        all_ended = _end(runner, threads)
    return value, all_ended


def _end(runner: asyncio.Runner, threads: ThreadPoolExecutor) -> bool:
    left = runner.run(_wind_up())
    if left:
        logger.warning("not waited for any longer, although cancelled: %s", "; ".join(left))
    if not _returns(threads):
        left.append("threads")
        logger.warning("threads of asyncio.to_thread hang in their calls; they are not waited for any longer")
    if left:
        runner.get_loop().close()
    else:
        runner.close()
    return not left


async def _wind_up() -> list[str]:
    """Cancel all tasks and close the generators; return descriptions of the tasks that do not end."""
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
    """Return the task's name and its stack of coroutines, outermost first."""
    coroutine: Any = task.get_coro()
    places = []
    while (place := getattr(coroutine, "__qualname__", None)) is not None:
        places.append(place)
        coroutine = getattr(coroutine, "cr_await", None)
    return f"{task.get_name()} ({' > '.join(places)})"


def _returns(threads: ThreadPoolExecutor) -> bool:
    ending = threading.Thread(target=threads.shutdown, name="holdfast-end", daemon=True)
    ending.start()
    ending.join(_LAST_CHANCE)
    return not ending.is_alive()
