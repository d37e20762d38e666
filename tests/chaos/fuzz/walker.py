"""When a cron expression fires, by walking through every minute of real time: slow, plain, and written from the manual.

It shares no line with what it checks: fields are read by its own parser, days are matched by a calendar, and the two
rules for summer time are followed as they are written down.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Minute(NamedTuple):
    """A minute of real time, and what the clock on the wall shows."""

    instant: int
    day: date
    hour: int
    minute: int
    wall: int
    """Minutes of the wall's own clock, as if it never shifted."""


@dataclass(frozen=True)
class Expression:
    """An expression, read by its words."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    day: str
    months: frozenset[int]
    weekday: str
    is_fixed: bool

    @classmethod
    def read(cls, text: str) -> Expression:
        second, minute, hour, day, month, weekday = ["0", *text.split()][-6:]
        return cls(
            _values(second, 0, 59), _values(minute, 0, 59), _values(hour, 0, 23), day,
            _values(month, 1, 12, MONTHS, 1), weekday, minute[0] != "*" and hour[0] != "*",
        )  # fmt: skip


def walk(expression: Expression, minutes: list[Minute], start: int) -> Iterator[int]:
    """The instants later than `start` at which it fires, as far as the minutes go."""
    in_minute, in_hour, days = expression.minutes, expression.hours, _Days(expression)
    # Four hours before, for a fixed time: no clock was set back by more, so what is shown again was shown since.
    first = max(0, (start - minutes[0].instant) // 60 - (240 if expression.is_fixed else 0))
    latest = minutes[first].wall - 1
    for instant, day, hour, minute, wall in minutes[first:]:
        found = (
            [instant + s for s in expression.seconds] if minute in in_minute and hour in in_hour and days[day] else []
        )
        if expression.is_fixed:
            if wall <= latest:
                continue
            if wall - latest > 1 and any(map(days.shows, range(latest + 1, wall))):
                found.append(instant)
            latest = wall
        if found and instant + 60 > start:
            yield from sorted(at for at in set(found) if at > start)


def minutes_between(zone: str, start: int, end: int) -> list[Minute]:
    """Every minute from `start` on, as the wall of a zone shows it."""
    place, found = ZoneInfo(zone), []
    for instant in range(start - start % 60, end, 60):
        local = datetime.fromtimestamp(instant, place)
        wall = local.toordinal() * 1440 + local.hour * 60 + local.minute
        found.append(Minute(instant, local.date(), local.hour, local.minute, wall))
    return found


class _Days(dict[date, bool]):
    """Which days an expression takes; each is asked about once."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    def __missing__(self, day: date) -> bool:
        self[day] = found = _takes(self._expression, day)
        return found

    def shows(self, wall: int) -> bool:
        """Whether it would fire when the wall showed that."""
        day, rest = divmod(wall, 1440)
        fits = rest % 60 in self._expression.minutes and rest // 60 in self._expression.hours
        return fits and self[date.fromordinal(day)]


def _takes(expression: Expression, day: date) -> bool:
    if day.month not in expression.months:
        return False
    by_day, by_weekday = _is_day(expression.day, day), _is_weekday(expression.weekday, day)
    if expression.day[0] == "*" or expression.weekday[0] == "*":
        return by_day and by_weekday
    return by_day or by_weekday


def _is_day(field: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    for item in field.split(","):
        if item == "L" and day.day == last:
            return True
        if item == "LW" and day.day == max(n for n in range(last - 2, last + 1) if day.replace(day=n).weekday() < 5):
            return True
        if item not in ("L", "LW") and day.day in _values(item, 1, 31):
            return True
    return False


def _is_weekday(field: str, day: date) -> bool:
    weekday, last = day.isoweekday() % 7, calendar.monthrange(day.year, day.month)[1]
    for item in field.split(","):
        name, _, nth = item.partition("#")
        if nth:
            fits = _number(name, DAYS, 0) % 7 == weekday and (day.day - 1) // 7 + 1 == int(nth)
        elif item.endswith("L") and len(item) == 2:
            fits = int(item[0]) % 7 == weekday and day.day > last - 7
        else:
            fits = weekday in {n % 7 for n in _values(item, 0, 7, DAYS, 0)}
        if fits:
            return True
    return False


@lru_cache(maxsize=4096)
def _values(
    field: str, lowest: int, highest: int, names: tuple[str, ...] | None = None, base: int = 0
) -> frozenset[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = lowest, highest
        else:
            low = _number(first, names, base)
            high = _number(last, names, base) if dash else highest if step else low
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...] | None, base: int) -> int:
    return names.index(text) + base if names and text in names else int(text)
