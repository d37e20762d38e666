"""Try an operation with one of its points broken, and see what is left: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError, OutcomeUnknown

from .breaking import POSTGRES, POSTGRES_AFTER_COMMIT, SQLITE, SQLITE_AFTER_COMMIT, Fault, Killed, Script, breaking
from .grounds import Ground
from .operations import Call
from .stage import Stage

GOES_ON = frozenset({"drain", "flows.extend", "remote.artifact", "remote.claim"})
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


def refer(ground: Ground, name: str, call: Call, *, to_its_end: bool = True) -> Reference:
    """What the operation does, twice, and that all comes to an end after it."""
    stage = ground.fresh()
    script = Script()
    with breaking(stage.store, script):
        call(stage)
    ground.require_sound(state := ground.look(), name)
    once = ground.census(state)
    _again(stage, call)
    twice = ground.census(state := ground.look())
    if to_its_end:
        ground.require_an_end(state, name)
    return Reference(script.points, once, once == twice)


def faults_at(backend: str, name: str, point: str, width: int, turn: int) -> Iterator[Fault]:
    """So many of the ways to break a statement, another one at each turn. At a commit all that come after it too, and
    all ways, unless it is one of many after each other."""
    faults, after = (SQLITE, SQLITE_AFTER_COMMIT) if backend == "sqlite" else (POSTGRES, POSTGRES_AFTER_COMMIT)
    if point == "commit":
        yield from after
    if point == "commit" and not goes_on(name):
        yield from faults
    else:
        yield from (faults[(turn + n) % len(faults)] for n in range(min(width, len(faults))))


def attempt(ground: Ground, name: str, call: Call, reference: Reference, at: int, fault: Fault, tally: Tally) -> None:
    """One trial. After it the store is as before, or as the reference, and a repetition completes it."""
    stage = ground.fresh()
    hint = f"{_REPRODUCE}[{stage.store.backend}-{name}]' # point {at}, {fault.name}"
    script = Script(at, fault)
    # Before the first commit there is nothing new to see.
    script.look = lambda: ground.dump() if "commit" in script.points[:at] else ground.base
    how = _outcome(stage, call, script)
    if not script.struck:
        assert goes_on(name), f"{hint}: there is no such point"
        return
    tally.trials += 1
    tally.broken.add(script.points[at])
    if fault.ends_process:
        ground.reopen()
    ground.is_shaken = fault.ends_connection
    left = ground.look()
    ground.is_clean = left.rows == ground.base
    if goes_on(name):
        ground.require_an_end(left, hint)
        ground.is_clean = False
    elif how == "definite":
        tally.definite += 1
        assert left.rows == script.saw, f"{hint}: a definite error left something behind"
    else:
        ground.require_sound(left, hint)
        if how == "done":
            tally.done += 1
            assert ground.census(left) == reference.once, f"{hint}: it says that it is done, and is not, or twice"
            return
        tally.unknown += 1
        assert fault.done or left.rows == script.saw, f"{hint}: nothing was committed, and something is there"
        if reference.repeatable and name not in IN_STEPS:
            _repeat(ground, call, reference, hint)


def goes_on(name: str) -> bool:
    return name in GOES_ON or name.startswith(RARELY)


def _repeat(ground: Ground, call: Call, reference: Reference, hint: str) -> None:
    _again(ground.stage, call)
    ground.is_clean = False
    ground.require_sound(state := ground.look(), hint)
    assert ground.census(state) == reference.once, f"{hint}: repeated after an unknown outcome, it was not done once"


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
