"""Decide whether a durable call gets its recorded answer, nothing, or a refusal from the journal."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidInput, StepDiverged
from ..model.steps import Step

MOST_CALLS: Final = 10_000
"""Durable calls in one job; each of its runs reads them all."""
# A key is a scope and a name: such a name could be taken for a call inside of another.
_LIKE_A_SCOPE: Final = re.compile(r"#[\d.]+/")


@dataclass(frozen=True, slots=True)
class Call:
    """One durable call of a run."""

    kind: str
    name: str
    nth: int
    """The number of the call among those of its kind and name."""
    called: str
    position: int
    """The position among all durable calls of the run."""

    @property
    def key(self) -> str:
        return key_of(self.kind, self.name, self.nth)


def key_of(kind: str, name: str, nth: int) -> str:
    return f"{kind}:{name}#{nth}"


def check_call_name(name: str) -> str:
    """Refuse a name that could be taken for a call inside of another."""
    if _LIKE_A_SCOPE.search(name):
        raise InvalidInput(f"the name {name!r} looks like a call inside of another, as step#1/call; change it")
    return name


def answer(call: Call, recorded: Mapping[str, Step], asked: Collection[str]) -> Step | None:
    """Return the entry that answers a call, if there is one. StepDiverged if it is the entry of another call.

    `asked` are the keys that this run has already used.
    """
    found = recorded.get(call.key)
    if found is None:
        _require_no_other_kind(call, recorded, asked)
        return None
    if found.called != call.called:
        raise StepDiverged(
            call.key, f"was recorded for {found.called or 'nothing'} and is asked for {call.called or 'nothing'} now"
        )
    return found


def _require_no_other_kind(call: Call, recorded: Mapping[str, Step], asked: Collection[str]) -> None:
    """Refuse a call in whose place another kind of call was recorded under the same name, and was not made again."""
    if not call.name:
        return
    suffix = f":{call.name}#{call.nth}"
    for key, step in recorded.items():
        if step.position == call.position and key not in asked and key.endswith(suffix) and step.kind != call.kind:
            raise StepDiverged(call.key, f"stands where {key} was recorded")


def find_cut(steps: Collection[Step], wanted: str) -> Step | None:
    """Find a step by its name, by `name#2`, or by its whole key; of several the first."""
    names = {wanted, f"step:{wanted}", f"step:{wanted}#1", f"{wanted}#1"}
    found = [step for step in steps if step.key in names or step.name == wanted]
    return min(found, key=lambda step: step.position, default=None)
