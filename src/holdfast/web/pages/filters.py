"""How values are written on pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ...clock import SECOND
from ...rules.durations import said


def iso(micros: int | None) -> str:
    """An instant by the microsecond, for machines and for those who hover."""
    if micros is None:
        return ""
    at = datetime.fromtimestamp(micros // SECOND, UTC).replace(microsecond=micros % SECOND)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(micros: int | None) -> str:
    """An instant for readers without scripts: UTC, by the second."""
    return "" if micros is None else datetime.fromtimestamp(micros // SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(micros: float | None) -> str:
    """A duration; nothing where there is none."""
    return "" if micros is None else said(micros)


def number(value: float | None) -> str:
    """A count with thin separators; integers exact whatever their size."""
    if value is None:
        return "–"
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:,.4g}"


def ago(micros: int | None, now: int) -> str:
    """How long before now, or in how long."""
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
