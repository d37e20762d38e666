"""For the tests of programs that use Holdfast: a store per test, jobs run on demand, a clock that is moved by hand.

Light to import, because the pytest plugin beside it is loaded by every run of pytest where Holdfast is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING

from .enqueued import assert_enqueued

if TYPE_CHECKING:
    from ..app import App
    from ..clock import Clock
    from ..draining import Drained

__all__ = ["adrain", "assert_enqueued", "drain", "inline", "isolated"]


def isolated(
    app: App, *, store: str | PathLike[str] = ":memory:", clock: Clock | None = None
) -> AbstractContextManager[App]:
    """`with isolated(app):` the app has a fresh store in memory, or the one named; afterwards its own again.

    With a `ManualClock` as `clock`, delays and retries come due when the test advances it.
    """
    return app.use(store, clock=clock)


def inline(app: App) -> AbstractContextManager[App]:
    """`with inline(app):` a job runs at once in whoever enqueues it, and nothing is stored."""
    return app.inline()


def drain(app: App, *, queues: Sequence[str] | None = None, until_empty: bool = True, concurrency: int = 1) -> Drained:
    """Run every due job in this process until nothing is due; how many runs ended in which way.

    Jobs that those jobs enqueue run too; with `until_empty=False` only as many as are due at the start.
    """
    return app.drain(queues=queues, until_empty=until_empty, concurrency=concurrency)


async def adrain(
    app: App, *, queues: Sequence[str] | None = None, until_empty: bool = True, concurrency: int = 1
) -> Drained:
    """The awaiting twin of `drain`."""
    return await app.adrain(queues=queues, until_empty=until_empty, concurrency=concurrency)
