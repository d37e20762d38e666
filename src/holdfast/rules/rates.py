"""Rates as text: "10/s", "100/m", "1000/h"."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..errors import ConfigError

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) ?/ ?(s|sec|second|m|min|minute|h|hour|d|day)")
_LOOKS_LIKE_RATE: Final = re.compile(r"\s*\d[\d._,]*\s*(/|per\b|a\b|each\b|every\b|$)", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Rate(NamedTuple):
    """A number of runs at once, and a number of runs each second in the long run."""

    burst: float
    per_second: float


def check_rate_text(task: str, rate: str | None) -> None:
    """Refuse what looks like a rate and says none, which would be taken for the name of one."""
    said = parse_rate(rate)
    if rate is None or (said is None and _LOOKS_LIKE_RATE.match(rate) is None):
        return
    if said is None:
        raise ConfigError(
            f"task {task!r}: rate={rate!r} is not understood; write '10/s', '100/m', '1000/h' or '5/d', or the name"
            " that app.rate(…) returns"
        )
    if said.per_second <= 0:
        raise ConfigError(f"task {task!r}: rate={rate!r} would let none of its jobs run; give more than 0")


def parse_rate(text: object) -> Rate | None:
    """Return the rate that a text such as "10/s" says; None for the name of a rate."""
    if not isinstance(text, str) or (match := _RATE.fullmatch(text)) is None:
        return None
    count = float(match[1])
    return Rate(max(1.0, count), count / _SECONDS[match[2][0]])


def rate_scope(task: str, rate: str) -> str:
    """Return the scope that a task's `rate` names: itself, or one of the task's own where it says "10/s"."""
    return f"task:{task}" if parse_rate(rate) else rate
