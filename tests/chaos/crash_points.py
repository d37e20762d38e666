"""Try an operation with one of its points broken, and see what is left: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError, OutcomeUnknown

from .breaking import POSTGRES, POSTGRES_AFTER_COMMIT, SQLITE, SQLITE_AFTER_COMMIT, Fault, Killed, Script, breaking
from .check import require
from .grounds import Ground
from .operations import Call
from .stage import Stage, recover

GOES_ON = frozenset({"drain", "flows.extend", "leases.artifact", "leases.claim"})
"""Many transactions, with others after a failure: the engine goes on, what cannot start is handed back, and bytes that
nobody will want are doomed."""
IN_STEPS = frozenset({"flows.apply", "engine: run short", "engine: outbox turn", "engine: write a blob"})
RARELY = "rarely: "
"""Several operations in a row, which cannot be begun again in the middle; those of this name too."""

_REPRODUCE = (
    "PROOF_SCALE=9 pytest 'tests/chaos/test_crash_points.py::test_an_operation_broken_at_every_statement_is_done_or_not"
)


@dataclass
class Reference:
    """What the operation does where nothing breaks."""

    points: list[str]
    once: dict[str, Any]
    repeatable: bool
    """Whether a repetition changes nothing more."""


@dataclass
class Tally:
    """What a run of trials came to."""

    trials: int = 0
    definite: int = 0
    unknown: int = 0
    done: int = 0
    broken: set[str] = field(default_factory=set)
    """Texts of the statements at which something broke."""

    def __str__(self) -> str:
        return f"{self.trials} trials, {self.definite} refused, {self.unknown} unknown, {self.done} done"


def refer(ground: Ground, name: str, call: Call) -> Reference:
    stage = ground.fresh()
    script = Script()
    with breaking(stage.store, script):
        call(stage)
    require(ground.facts(), hint=name)
    once = ground.census()
    _again(stage, call)
    twice = ground.census()
    recover(stage)
    require(ground.facts(), drained=True, hint=name)
    return Reference(script.points, once, once == twice)


def faults_at(backend: str, point: str, width: int, turn: int) -> Iterator[Fault]:
    """So many of the ways to break a statement, another one at each turn; at a commit all, and those after it."""
    faults, after = (SQLITE, SQLITE_AFTER_COMMIT) if backend == "sqlite" else (POSTGRES, POSTGRES_AFTER_COMMIT)
    if point == "commit":
        yield from (*faults, *after)
    else:
        yield from (faults[(turn + n) % len(faults)] for n in range(min(width, len(faults))))


def attempt(ground: Ground, name: str, call: Call, reference: Reference, at: int, fault: Fault, tally: Tally) -> None:
    """One trial. After it the store is as before, or as the reference, and a repetition completes it."""
    stage = ground.fresh()
    hint = f"{_REPRODUCE}[{stage.store.backend}-{name}]' # point {at}, {fault.name}"
    script = Script(at, fault, look=ground.dump)
    how = _outcome(stage, call, script)
    if not script.struck:
        assert name in GOES_ON or name.startswith(RARELY), f"{hint}: there is no such point"
        return
    tally.trials += 1
    tally.broken.add(script.points[at])
    if fault.ends_process:
        ground.reopen()
    if name in GOES_ON or name.startswith(RARELY):
        require(ground.facts(), hint=hint)
        recover(stage)
        require(ground.facts(), drained=True, hint=hint)
        return
    if how == "definite":
        tally.definite += 1
        left = ground.dump()
        assert left == script.saw, f"{hint}: a definite error left something behind"
        ground.is_clean = left == ground.base
        return
    require(ground.facts(), hint=hint)
    if how == "done":
        tally.done += 1
        assert ground.census() == reference.once, f"{hint}: it says that it is done, and is not, or twice"
        return
    tally.unknown += 1
    if not fault.done:
        assert ground.dump() == script.saw, f"{hint}: nothing was committed, and something is there"
    if reference.repeatable and name not in IN_STEPS and not name.startswith(RARELY):
        _again(stage, call)
        assert ground.census() == reference.once, f"{hint}: repeated after an unknown outcome, it was not done once"
        require(ground.facts(), hint=hint)


def _outcome(stage: Stage, call: Call, script: Script) -> str:
    with breaking(stage.store, script):
        try:
            call(stage)
        except (Killed, OutcomeUnknown):
            return "unknown"
        except HoldfastError:
            return "definite"
    return "done"


def _again(stage: Stage, call: Call) -> None:
    with suppress(HoldfastError):  # it may say that there is nothing more to do
        call(stage)
