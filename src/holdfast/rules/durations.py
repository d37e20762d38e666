"""Durations as people write them: seconds, or a number with a unit."""

from __future__ import annotations

import re
from typing import Final

from ..clock import SECOND
from ..errors import InvalidInput
from ..names import check_duration

UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a text such as 30m, 12h or 7d; None if it is something else."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * UNITS[match[2]]


def check_span(what: str, value: object) -> float:
    """Return a number, a timedelta, or a text such as 7d, as seconds."""
    if not isinstance(value, str):
        return check_duration(what, value) / SECOND
    seconds = seconds_of(value)
    if seconds is None:
        raise InvalidInput(f"{what} is {value!r}; write seconds, or such as 30m, 12h, 7d")
    return check_duration(what, seconds) / SECOND


def said(micros: float) -> str:
    """Return a duration as people read it: three digits below a minute, the two largest units above."""
    sign, seconds = "-" if micros < 0 else "", abs(micros) / SECOND
    if seconds < 0.001:
        return f"{micros:.0f} µs"
    if seconds < 1:
        return f"{micros / 1_000:.3g} ms"
    if seconds < 60:
        return f"{micros / SECOND:.3g} s"
    return sign + _large(int(seconds))


def _large(seconds: int) -> str:
    at = next(at for at, (size, _) in enumerate(_STEPS) if seconds >= size)
    (size, unit), (below, small) = _STEPS[at], _STEPS[at + 1]
    rest = seconds % size // below
    return f"{seconds // size} {unit}" + (f" {rest} {small}" if rest else "")
