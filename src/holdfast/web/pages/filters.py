"""How values are written on pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ...clock import SECOND

_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


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
    """A duration in its two largest units."""
    if micros is None:
        return ""
    seconds = abs(micros) / SECOND
    if seconds < 0.001:
        return f"{micros:.0f} µs"
    if seconds < 1:
        return f"{micros / 1_000:.3g} ms"
    if seconds < 60:
        return f"{micros / SECOND:.3g} s"
    return ("-" if micros < 0 else "") + _large(int(seconds))


def _large(seconds: int) -> str:
    for i, (size, unit) in enumerate(_STEPS):
        if seconds >= size:
            below, small = _STEPS[i + 1] if i + 1 < len(_STEPS) else (1, "s")
            rest = seconds % size // below
            return f"{seconds // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


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
