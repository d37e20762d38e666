"""The journal as one run sees it: the identity of each call, and its record."""

from __future__ import annotations

import threading
from collections import Counter

from ..errors import InvalidInput
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
        self._first: dict[tuple[str, str], tuple[object, str]] = {}

    def number(self, kind: str, name: str, called: str, by: object) -> Call:
        """Return the next call of that kind and name, made `by` a task or thread.

        The order of two tasks or threads can differ from run to run, so that one would get the record of the other:
        all calls of one name must come from the same one.
        """
        with self._lock:
            return self._number(kind, name, called, by)

    def answer(self, call: Call) -> Step | None:
        """Return the record of a call; StepDiverged if it is that of a different call."""
        found = answer(call, self.recorded, self._asked)
        self._asked.add(call.key)
        return found

    def add(self, step: Step) -> Step:
        self._asked.add(step.key)
        self.recorded[step.key] = step
        return step

    def _number(self, kind: str, name: str, called: str, by: object) -> Call:
        who, before = self._first.setdefault((kind, name), (by, called))
        if kind == "step" and before != called:
            raise InvalidInput(
                f"step {name!r} stands for {before} and now for {called}, in one run; give each a name of its own"
            )
        if who is not by:
            raise InvalidInput(
                f"{kind} {name!r} is asked for by two tasks or threads at once, in no order that a replay could "
                "repeat; start them by ctx.gather, or give them different names"
            )
        if self._position >= MOST_CALLS:
            raise InvalidInput(f"a job can make {MOST_CALLS:,} durable calls; let it enqueue others for the rest")
        self._position += 1
        self._counts[kind, name] += 1
        return Call(kind, name, self._counts[kind, name], called, self._position)
