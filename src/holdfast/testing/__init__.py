"""Tools for testing programs that use Holdfast: a store for each test, jobs run on demand, a manual clock.

It is cheap to import, because every pytest run in an environment with Holdfast loads the plugin next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING, Any

from .enqueued import assert_enqueued

if TYPE_CHECKING:
    from ..app import App
    from ..clock import Clock
    from ..runtime.draining import Drained
    from ..tasks.task import JobRequest
    from .exploring import Explored

__all__ = ["adrain", "aexplore", "assert_enqueued", "drain", "explore", "inline", "isolated", "override_resource"]


def isolated(
    app: App,
    *,
    store: str | PathLike[str] = ":memory:",
    clock: Clock | None = None,
    random: Callable[[], float] | None = None,
) -> AbstractContextManager[App]:
    """`with isolated(app):` gives the app a fresh store in memory, or the one named; afterwards its own again.

    With a `ManualClock` as `clock`, delays and retries come due when the test advances it. `random` gives the numbers
    from 0 up to 1 by which their jitter is chosen.
    """
    block = app.override_store(store, clock=clock, random=random)
    block.called = "isolated"
    return block


def inline(app: App) -> AbstractContextManager[App]:
    """`with inline(app):` runs each job immediately in its caller, and stores nothing."""
    return app.inline()


def override_resource(app: App, resource: Any, value: Any) -> AbstractContextManager[App]:
    """`with override_resource(app, Pool, fake):` gives handlers and steps that value; `resource` may be its function.

    The value is not closed at the end. A task with isolate="process" that takes the resource is refused meanwhile.
    """
    block = app.override_resource(resource, value)
    block.called = "override_resource"
    return block


def drain(
    app: App,
    *,
    queues: Sequence[str] | None = None,
    until_empty: bool = True,
    concurrency: int = 1,
    webhooks: bool = True,
) -> Drained:
    """Run every due job in this process until nothing is due; return the number of runs by outcome.

    Jobs that those jobs enqueue run too; with `until_empty=False` only as many as are due at the start. Outboxes and
    webhooks are really delivered as well; `webhooks=False` sends no webhook.
    """
    return app.drain(queues=queues, until_empty=until_empty, concurrency=concurrency, webhooks=webhooks)


async def adrain(
    app: App,
    *,
    queues: Sequence[str] | None = None,
    until_empty: bool = True,
    concurrency: int = 1,
    webhooks: bool = True,
) -> Drained:
    """The async version of `drain`."""
    return await app.adrain(queues=queues, until_empty=until_empty, concurrency=concurrency, webhooks=webhooks)


def explore(
    app: App,
    start: JobRequest[Any] | Callable[[App], object],
    *,
    on_idle: Callable[[App], object] | None = None,
    outcome: Callable[[App], object] | None = None,
    store: Callable[[], str | PathLike[str]] = lambda: ":memory:",
) -> Explored:
    """Run a job, or what `start(app)` enqueues, once to its end, then again with a kill before and after each commit.

    Each run has a fresh store in memory and a clock that jumps to the next due time. All must end with the same state
    and result of each job, or the same value of `outcome(app)`, and no recorded step may run again. AssertionError
    otherwise. `on_idle(app)` is called when jobs wait for something other than time, to send a signal. `store()` gives
    each run another store, such as a new and migrated database of Postgres.
    """
    from ..runtime.draining import run_blocking

    explored = aexplore(app, start, on_idle=on_idle, outcome=outcome, store=store)
    return run_blocking(explored, instead="await aexplore(…)")


async def aexplore(
    app: App,
    start: JobRequest[Any] | Callable[[App], object],
    *,
    on_idle: Callable[[App], object] | None = None,
    outcome: Callable[[App], object] | None = None,
    store: Callable[[], str | PathLike[str]] = lambda: ":memory:",
) -> Explored:
    """The async version of `explore`."""
    from .exploring import explore

    return await explore(app, start, on_idle=on_idle, outcome=outcome, store=store)
