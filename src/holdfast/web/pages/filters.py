"""Template filters that format values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ...clock import SECOND
from ...rules.durations import said


def iso(micros: int | None) -> str:
    """Format a time with microseconds, for machines and tooltips."""
    if micros is None:
        return ""
    at = datetime.fromtimestamp(micros // SECOND, UTC).replace(microsecond=micros % SECOND)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(micros: int | None) -> str:
    """Format a time for readers without script: UTC, to the second."""
    return "" if micros is None else datetime.fromtimestamp(micros // SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(micros: float | None) -> str:
    """Format a duration; empty for None."""
    return "" if micros is None else said(micros)


def number(value: float | None) -> str:
    """Format a count with thin separators; integers keep all digits."""
    if value is None:
        return "–"
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:,.4g}"


def ago(micros: int | None, now: int) -> str:
    """Format the distance from now, in the past or the future."""
    if micros is None:
        return ""
    away = now - micros
    return f"{duration(away)} ago" if away >= 0 else f"in {duration(-away)}"


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "iso": iso,
    "clock": clock,
    "duration": duration,
    "number": number,
    "ago": ago,
}
