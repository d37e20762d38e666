"""The journal as one run sees it: the place and identity of each call, and its record."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import InvalidInput
from ..model.outcomes import Outcome
from ..model.steps import Step
from ..rules.steps import MOST_CALLS, Call, answer


class RunJournal:
    """Numbers the calls of a run, and returns the records of those that an earlier run made."""

    def __init__(self) -> None:
        self.recorded: dict[str, Step] = {}
        self.read_at = 0
        """The time at which the journal was read, by the store's clock."""
        self._asked: set[str] = set()
        self._lock = threading.Lock()
        self._position = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._called: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str], tuple[object, set[int]]] = {}
        """The calls of a name that have not ended, and the task or thread that made them."""

    def number(self, kind: str, name: str, called: str, by: object) -> Call:
        """Return the next call of that kind and name, made `by` a task or thread.

        The order of two tasks or threads can differ from run to run, so that one would get the record of the other:
        a call is refused while another one has a call of that name open.
        """
        with self._lock:
            return self._number(kind, name, called, by)

    def answer(self, call: Call) -> Step | None:
        """Return the record of a call; StepDiverged if it is that of a different call."""
        found = answer(call, self.recorded, self._asked)
        self._asked.add(call.key)
        return found

    def end(self, call: Call) -> None:
        """Note that a call has ended: from now on, other tasks and threads may use its name."""
        with self._lock:
            if (found := self._open.get((call.kind, call.name))) is not None:
                found[1].discard(call.nth)

    def add(self, step: Step) -> Step:
        self._asked.add(step.key)
        self.recorded[step.key] = step
        return step

    def _number(self, kind: str, name: str, called: str, by: object) -> Call:
        before = self._called.setdefault((kind, name), called)
        if kind == "step" and before != called:
            raise InvalidInput(
                f"step {name!r} stands for {before} and now for {called}, in one run; give each a name of its own"
            )
        who, still_open = self._open.setdefault((kind, name), (by, set()))
        if who is not by and not still_open:
            self._open[kind, name] = by, still_open
        elif who is not by:
            raise InvalidInput(
                f"{kind} {name!r} is asked for by two tasks or threads at once, in no order that a replay could "
                "repeat; start them by ctx.gather, give them different names, or await the first before the second"
            )
        if self._position >= MOST_CALLS:
            raise InvalidInput(f"a job can make {MOST_CALLS:,} durable calls; let it enqueue others for the rest")
        self._position += 1
        self._counts[kind, name] += 1
        still_open.add(self._counts[kind, name])
        return Call(kind, name, self._counts[kind, name], called, self._position)


class Branch:
    """One of the calls that `ctx.gather` runs concurrently. `wish` is the outcome with which the run pauses for it."""

    __slots__ = ("task", "wish")

    def __init__(self) -> None:
        self.task: Any = None
        self.wish: Outcome | None = None


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place in a run at which a call is made: at the top, inside a step, or in a branch of `ctx.gather`.

    `scope` separates names: calls in a step or branch are numbered on their own.
    """

    run: object = None
    scope: str = ""
    branch: Branch | None = field(default=None, compare=False)


TOP: Final = CallSite()
# Follows the code through tasks and threads, also where a step is a closure over its task's own context.
_site: Final[ContextVar[CallSite]] = ContextVar("holdfast_call_site", default=TOP)


def site_of(run: object) -> CallSite:
    """Return the call site in that run. Inline, a job may run inside another job's step, which is not its own place."""
    site = _site.get()
    return site if site.run is run else TOP


@contextmanager
def inside(run: object, scope: str, branch: Branch | None) -> Iterator[None]:
    token = _site.set(CallSite(run, scope, branch))
    try:
        yield
    finally:
        _site.reset(token)
