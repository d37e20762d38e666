"""Durations as people write them: seconds, or a number with a unit."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")


def seconds_of(text: str) -> float | None:
    """The seconds of such as 30m, 12h or 7d; None if it is something else."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]
