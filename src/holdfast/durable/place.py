"""The place in a run at which a durable call is made: at the top, inside a step, or in a branch of `ctx.gather`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from ..model.outcomes import Outcome


class Branch:
    """One of the calls that `ctx.gather` runs concurrently. `wish` is the outcome with which the run pauses for it."""

    __slots__ = ("task", "wish")

    def __init__(self) -> None:
        self.task: Any = None
        self.wish: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """`scope` separates names: calls in a step or branch are numbered on their own."""

    run: object = None
    scope: str = ""
    branch: Branch | None = field(default=None, compare=False)


TOP: Final = Place()
# Follows the code through tasks and threads, also where a step is a closure over its task's own context.
_place: Final[ContextVar[Place]] = ContextVar("holdfast_place", default=TOP)


def place_of(run: object) -> Place:
    """Return the place in that run. Inline, a job may run inside another job's step, which is not its own place."""
    place = _place.get()
    return place if place.run is run else TOP


@contextmanager
def inside(run: object, scope: str, branch: Branch | None) -> Iterator[None]:
    token = _place.set(Place(run, scope, branch))
    try:
        yield
    finally:
        _place.reset(token)
