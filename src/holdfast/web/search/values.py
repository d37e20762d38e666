"""Values of qualifiers that are more than a name: bounds, durations, times."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from ...clock import SECOND
from ...names import MAX_INSTANT

Side: TypeAlias = Literal["", ">", ">=", "<", "<="]

_BOUND: Final = re.compile(r"(?P<side>>=|<=|>|<|)(?P<value>.+)", re.DOTALL)
_WHOLE: Final = re.compile(r"-?\d{1,15}", re.ASCII)
_LENGTH: Final = re.compile(r"(?P<n>\d{1,9}(?:\.\d{1,6})?)(?P<unit>us|ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND}


@dataclass(frozen=True, slots=True)
class Bound:
    """A number to compare with, and its operator."""

    side: Side
    value: int
    text: str

    def holds(self, given: int | None) -> bool:
        """Return True if a number is within the bound; None never is."""
        if given is None:
            return False
        match self.side:
            case ">":
                return given > self.value
            case ">=":
                return given >= self.value
            case "<":
                return given < self.value
            case "<=":
                return given <= self.value
            case _:
                return given == self.value

    def __str__(self) -> str:
        return self.text


def read_bound(text: str, read: Callable[[str], int] | None = None) -> Bound:
    """Parse `5`, `>5` or `<=5`. Raises ValueError if invalid."""
    found = _BOUND.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return Bound(found["side"], (read or read_whole)(found["value"]), text)  # type: ignore[arg-type]


def read_whole(text: str) -> int:
    """Parse a whole number."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def read_length(text: str) -> int:
    """Parse `30s` or `1.5h` into microseconds."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return round(float(found["n"]) * _UNITS[found["unit"]])


def check_since(text: str) -> str:
    """Parse a time, or return None."""
    instant(text, MAX_INSTANT)
    return text


def instant(text: str, now: int) -> int:
    """Parse a duration ago, or a time, into microseconds since 1970. Without a zone it is UTC."""
    if _LENGTH.fullmatch(text):
        return max(0, now - read_length(text))
    at = datetime.fromisoformat(text)
    at = at if at.utcoffset() is not None else at.replace(tzinfo=UTC)
    micros = round((at - datetime.fromtimestamp(0, UTC)).total_seconds() * SECOND)
    if not 0 <= micros <= MAX_INSTANT:
        raise ValueError(text)
    return micros
