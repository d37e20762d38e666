"""Describe cron expressions and intervals in words. An expression that is too intricate is left as it is.

It reads the text and never enumerates its values, so no expression makes it slow or its answer long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from ..clock import SECOND
from .cron import MAX_LENGTH

_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAY_NAMES: Final = {name[:3].upper(): n for n, name in enumerate(_DAYS)} | {"7": 0}
_MONTH_NAMES: Final = {name[:3].upper(): n for n, name in enumerate(_MONTHS, 1)}
_NTH: Final = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth"}
_LISTED: Final = 6
"""The most items of a field that are listed."""
_Word: TypeAlias = Callable[[str], "str | None"]
_UNITS: Final = ((7 * 86_400, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def describe(expression: str | None, every: int | None = None) -> str | None:
    """Return a description such as "At 03:00, Monday to Friday"; None where words would not be clearer."""
    if every is not None:
        return f"Every {_span(every)}"
    if expression is None or len(expression) > MAX_LENGTH:
        return None
    fields = expression.upper().split()
    if len(fields) not in (5, 6):
        return None
    second, minute, hour, day, month, weekday = fields if len(fields) == 6 else ["0", *fields]
    time, days = _time(second, minute, hour), _days(day, weekday)
    months = "" if month == "*" else _items(month, _month, "in {}", "every {} months")
    if time is None or days is None or months is None:
        return None
    if time.startswith("At ") and hour != "*" and not days and not months:
        return f"Every day at {time.removeprefix('At ')}"
    return ", ".join(part for part in (time, days, months) if part)


def _span(micros: int) -> str:
    seconds = micros / SECOND
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            n = int(seconds // size)
            return unit if n == 1 else f"{n:,} {unit}s"
    return f"{seconds:,.6g} seconds"


def _time(second: str, minute: str, hour: str) -> str | None:
    fixed = [part for part in (second, minute, hour) if part.isdecimal()]
    if len(fixed) == 3:
        return f"At {_clock(hour, minute, second)}"
    if second == "0" and minute.isdecimal() and _is_list(hour):
        return "At " + _joined([_clock(one, minute, "0") for one in hour.split(",")])
    small = _frequency(second, minute)
    if small is None:
        return None
    if hour == "*":
        return small
    if step := _step(hour):
        if step > 1 and small == "Every hour" and 24 % step == 0:
            return f"Every {step} hours"
        return f"{small}, every {_ordinal(step)} hour" if step > 1 else small
    first, dash, last = hour.partition("-")
    if dash and first.isdecimal() and last.isdecimal():
        return f"{small} from {int(first):02d}:00 to {int(last):02d}:59"
    hours = _items(hour, lambda text: f"{int(text):02d}" if text.isdecimal() else None, "{}", "")
    return None if hours is None else f"{small} in the hours {hours}"


def _frequency(second: str, minute: str) -> str | None:
    """Describe the times within an hour."""
    if second == "*":
        return "Every second" if minute == "*" else None
    if step := _step(second):
        return _each(step, "second") if minute == "*" else None
    if second != "0":
        return None
    if minute == "*":
        return "Every minute"
    if step := _step(minute):
        return _each(step, "minute")
    if minute == "0":
        return "Every hour"
    minutes = _items(minute, lambda text: text.lstrip("0") or "0" if text.isdecimal() else None, "{}", "")
    return None if minutes is None else f"At minute {minutes} of the hour"


def _days(day: str, weekday: str) -> str | None:
    if day == "*" and weekday == "*":
        return ""
    on_day = "" if day == "*" else _month_days(day)
    on_weekday = "" if weekday == "*" else _weekdays(weekday)
    if on_day is None or on_weekday is None:
        return None
    if on_day and on_weekday and (day.startswith("*") or weekday.startswith("*")):
        return None
    # As in cron: if both are given, either matches.
    return " or ".join(part for part in (on_day, on_weekday) if part)


def _month_days(day: str) -> str | None:
    if day in ("L", "LW"):
        return "on the last day of the month" if day == "L" else "on the last weekday of the month"
    if step := _step(day):
        return f"every {_ordinal(step)} day" if step > 1 else ""
    return _items(day, lambda text: _ordinal(int(text)) if text.isdecimal() else None, "on the {}", "")


def _weekdays(weekday: str) -> str | None:
    name, _, nth = weekday.partition("#")
    if nth:
        found = _weekday(name)
        return f"on the {_NTH[nth]} {found} of the month" if found and nth in _NTH else None
    if weekday.endswith("L") and len(weekday) > 1:
        found = _weekday(weekday[:-1])
        return f"on the last {found} of the month" if found else None
    if "/" in weekday:
        return None
    return _items(weekday, _weekday, "{}", "")


def _weekday(text: str) -> str | None:
    n = _DAY_NAMES.get(text, int(text) if text.isdecimal() and len(text) == 1 and text <= "6" else None)
    return None if n is None else _DAYS[n]


def _month(text: str) -> str | None:
    n = _MONTH_NAMES.get(text, int(text) if text.isdecimal() and len(text) <= 2 else None)
    return _MONTHS[n - 1] if n is not None and 1 <= n <= 12 else None


def _items(field: str, word: _Word, around: str, stepped: str) -> str | None:
    """Return a list of single values and ranges in words; None if one cannot be described."""
    if step := _step(field):
        return stepped.format(step) if stepped else None
    items = field.split(",")
    if len(items) > _LISTED:
        return None
    said: list[str] = []
    for item in items:
        first, dash, last = item.partition("-")
        one, other = word(first), word(last) if dash else ""
        if one is None or other is None:
            return None
        said.append(f"{one} to {other}" if dash else one)
    return around.format(_joined(said))


def _step(field: str) -> int | None:
    match = re.fullmatch(r"\*/(\d{1,4})", field)
    return int(match[1]) if match and int(match[1]) else None


def _is_list(field: str) -> bool:
    items = field.split(",")
    return 1 < len(items) <= _LISTED and all(item.isdecimal() for item in items)


def _each(step: int, unit: str) -> str:
    return f"Every {unit}" if step == 1 else f"Every {step} {unit}s"


def _clock(hour: str, minute: str, second: str) -> str:
    text = f"{int(hour):02d}:{int(minute):02d}"
    return text if int(second) == 0 else f"{text}:{int(second):02d}"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
