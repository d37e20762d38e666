"""Decides when a wait is over, and when it has become hopeless."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, get_args

from ..errors import InvalidInput
from ..model.wait import Condition, Distinct, OnTimeout, Received

_ON_TIMEOUT: Final = get_args(OnTimeout)
_DISTINCT: Final = get_args(Distinct)


@dataclass(frozen=True, slots=True)
class Note:
    """A signal in a mailbox, without its payload."""

    seq: int
    name: str
    waitpoint: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A waitpoint as a wait sees it."""

    expires_at: int
    once: bool = True
    closed: bool = False
    name: str = ""


Place: TypeAlias = "tuple[str, str]"


def check_on_timeout(on_timeout: OnTimeout) -> OnTimeout:
    if on_timeout not in _ON_TIMEOUT:
        raise InvalidInput(f"on_timeout is {on_timeout!r}; use one of {', '.join(_ON_TIMEOUT)}")
    return on_timeout


def check_distinct(distinct: Distinct) -> Distinct:
    if distinct not in _DISTINCT:
        raise InvalidInput(f"distinct is {distinct!r}; use one of {', '.join(_DISTINCT)}")
    return distinct


def check_needed(needed: object, asked: int) -> int:
    """The number of signals that end a wait for so many names and waitpoints; 0 is one from each."""
    if needed is None:
        return 1
    if needed == "all":
        return 0 if asked else 1
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 1:
        raise InvalidInput(f"needed is {needed!r}; use 'all', or how many signals end the wait")
    return needed


def in_order(signals: Sequence[Received], asked: Condition) -> Sequence[Received]:
    """One from each comes in the order of the question, any others as they were accepted."""
    if asked.needed:
        return signals
    places = {source: at for at, source in enumerate((*asked.names, *asked.waitpoints))}
    return sorted(signals, key=lambda signal: places.get(signal.waitpoint or signal.name, 0))


def chosen(condition: Condition, mailbox: Iterable[Note]) -> list[int] | None:
    """The signals that meet the condition, in the order of acceptance; None if it is not met."""
    fitting = [note for note in mailbox if _concerns(condition, note)]
    if not condition.names and not condition.waitpoints:
        return None
    if condition.needed == 0:
        return _one_each(condition, fitting)
    return _first_of_each_kind(condition, fitting)


def hope(condition: Condition, mailbox: Iterable[Note], gates: Mapping[str, Gate]) -> int | None:
    """The instant from which the condition can no longer be met by signals; None if it always could.

    A waitpoint that is not in `gates` takes nothing.
    """
    if not condition.waitpoints:
        return None
    arrived = {note.waitpoint for note in mailbox}
    missing = sorted((_until(gates.get(id)) for id in condition.waitpoints if id not in arrived), reverse=True)
    if condition.needed == 0:
        return missing[-1] if missing else None
    if condition.names:
        return None
    if any(id in gates and not gates[id].once for id in condition.waitpoints):
        return max(_until(gates.get(id)) for id in condition.waitpoints)
    lacking = condition.needed - sum(id in arrived for id in condition.waitpoints)
    # The last moment at which enough of them are still open.
    return 0 if lacking > len(missing) else missing[lacking - 1]


def _concerns(condition: Condition, note: Note) -> bool:
    return note.name in condition.names or (note.waitpoint is not None and note.waitpoint in condition.waitpoints)


def _one_each(condition: Condition, fitting: Sequence[Note]) -> list[int] | None:
    # Places before names: a signal at a waitpoint has a name too, and must not be spent on that.
    taken: list[int] = []
    for kind, wanted in _places(condition):
        found = next((note.seq for note in fitting if note.seq not in taken and _place(note, kind) == wanted), None)
        if found is None:
            return None
        taken.append(found)
    return sorted(taken)


def _first_of_each_kind(condition: Condition, fitting: Sequence[Note]) -> list[int] | None:
    first: dict[object, int] = {}
    for note in fitting:
        first.setdefault(_kind(condition, note), note.seq)
        if len(first) == condition.needed:
            return sorted(first.values())
    return None


def _kind(condition: Condition, note: Note) -> object:
    match condition.distinct:
        case "signals":
            return note.seq
        case "sources":
            return note.source
        case "waitpoints":
            return note.waitpoint or note.name


def _places(condition: Condition) -> list[Place]:
    return [*(("waitpoint", id) for id in condition.waitpoints), *(("name", name) for name in condition.names)]


def _place(note: Note, kind: str) -> str | None:
    return note.waitpoint if kind == "waitpoint" else note.name


def _until(gate: Gate | None) -> int:
    return 0 if gate is None or gate.closed else gate.expires_at
