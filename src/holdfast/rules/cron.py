"""Cron expressions: their syntax, and the times at which they fire in their zone.

Five fields (minute hour day month weekday), or six with the seconds first. Two rules for the change to and from summer
time. Where neither hour nor minute begins with a star the times are fixed: one that the clock skips fires once, at the
first instant after the gap; one that the clock repeats fires once, the first time. Any other expression follows elapsed
time: it fires whenever the local clock shows a matching time, in a repeated hour again, in a skipped one not at all.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from ..errors import InvalidInput, UnknownZone

MAX_LENGTH: Final = 256
_MAX_ZONE: Final = 64
_ALLOWED: Final = re.compile(r"[0-9A-Za-z*/,#\- \t]+")
_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_STEPPED: Final = re.compile(r"\b(\w+)-(\w+)/(\d+)\b")
_NUMBERS: Final = {
    "SUN": "0", "MON": "1", "TUE": "2", "WED": "3", "THU": "4", "FRI": "5", "SAT": "6",
    "JAN": "1", "FEB": "2", "MAR": "3", "APR": "4", "MAY": "5", "JUN": "6", "JUL": "7", "AUG": "8", "SEP": "9",
    "OCT": "10", "NOV": "11", "DEC": "12",
}  # fmt: skip
# Names that mean another zone on another machine, or count leap seconds.
_NO_ZONES: Final = re.compile(r"(?i)localtime|posixrules|factory|(posix|right)/.*")
_EPOCH: Final = datetime.fromisoformat("1970-01-01")
_SOME_DAY: Final = datetime.fromisoformat("2000-01-01")
_SECOND: Final = timedelta(seconds=1)
_HOUR: Final = 3600
_WINDOW: Final = 24 * _HOUR
# The largest difference between two offsets from UTC.
_WIDEST_SHIFT: Final = 27 * _HOUR


@dataclass(frozen=True, slots=True)
class Cron:
    """A checked expression in its zone. Instants are seconds since 1970."""

    text: str
    zone: tzinfo
    sim: CronSim
    is_fixed: bool

    def after(self, instant: int) -> Iterator[int]:
        """Yield the instants at which it fires, later than `instant`, in order; they end with the calendar."""
        try:
            if self.zone is UTC:
                yield from _wall_times(self.sim, instant + 1)
            else:
                yield from _fixed(self, instant) if self.is_fixed else _elapsed(self, instant)
        except (OverflowError, ValueError):
            # A datetime is limited to the years 1 to 9999.
            return


def parse_cron(text: str, zone: str = "UTC") -> Cron:
    """Parse an expression; InvalidInput says what is wrong with it."""
    check_zone(zone)
    return _parsed(check_text(text), zone)


@lru_cache(maxsize=1024)
def _parsed(text: str, zone: str) -> Cron:
    try:
        sim = CronSim(_STEPPED.sub(_one_value, text), _SOME_DAY)
        next(copy.copy(sim))
    except StopIteration:
        raise InvalidInput(_never(text)) from None
    except (CronSimError, ValueError, AssertionError, TypeError) as wrong:
        if "day-of-month" in str(wrong) and _fits_other_months(text):
            raise InvalidInput(_never(text)) from None
        raise InvalidInput(f"the cron expression {text!r} is not valid ({str(wrong).lower()}); {_HOW}") from None
    minute, hour = sim.parts[1], sim.parts[2]
    return Cron(text, check_zone(zone), sim, is_fixed=not (minute.startswith("*") or hour.startswith("*")))


def check_text(text: object) -> str:
    """Return the text without needless space and nicknames, before it is parsed."""
    if not isinstance(text, str):
        raise InvalidInput(f"a cron expression must be text, not {type(text).__qualname__}; {_HOW}")
    if len(text) > MAX_LENGTH:
        raise InvalidInput(f"the cron expression has {len(text):,} characters; use at most {MAX_LENGTH}")
    plain = _NICKNAMES.get(text.strip().lower(), text)
    if not _ALLOWED.fullmatch(plain):
        raise InvalidInput(f"the cron expression {text!a} has characters that no field takes; {_HOW}")
    fields = plain.upper().split()
    if len(fields) not in (5, 6):
        raise InvalidInput(f"the cron expression {text!r} has {len(fields)} fields, not 5 or 6; {_HOW}")
    return " ".join(fields)


def check_steps(text: str) -> None:
    """Refuse a step beyond the values of its field, such as every 90 minutes: it would mean once an hour."""
    fields = text.split()
    for field, (name, values) in zip(reversed(fields), _FIELDS, strict=False):
        for part in field.split(","):
            step = part.rpartition("/")[2] if "/" in part else ""
            if step.isdigit() and int(step) > values:
                raise InvalidInput(
                    f"the step of {part!r} is too large: {name} has {values} values, so it would not be an interval;"
                    " use app.every(…) with seconds"
                )


def check_zone(name: object) -> tzinfo:
    """Return an IANA time zone by its name."""
    if not isinstance(name, str):
        raise InvalidInput(f"a zone must be a name such as 'Europe/Paris', not {type(name).__qualname__}")
    if name == "UTC":
        return UTC
    try:
        if not name or len(name) > _MAX_ZONE or _NO_ZONES.fullmatch(name):
            raise ValueError
        return ZoneInfo(name)
    # A name may also be a folder of the database, or a file that is not a zone.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(
            f"there is no time zone {name[:_MAX_ZONE]!a}; use an IANA name such as 'Europe/Paris' or 'UTC'"
            " (on a machine without a time zone database: pip install tzdata)"
        ) from None


def _never(text: str) -> str:
    return f"the cron expression {text!r} never fires: its months have no such day; change the day or the month"


def _one_value(range_: re.Match[str]) -> str:
    """Rewrite a range from a value to itself, whatever its step; cronsim would run to the end of the field."""
    first, last, step = (_NUMBERS.get(part, part.lstrip("0") or "0") for part in range_.groups())
    return first if first == last and first.isdigit() and step != "0" else range_[0]


def _fits_other_months(text: str) -> bool:
    """Return whether only the months exclude a day, as in the 30th of February."""
    *before, _month, weekday = text.split()
    try:
        CronSim(" ".join([*before, "*", weekday]), _SOME_DAY)
    except (CronSimError, ValueError, AssertionError, TypeError):
        return False
    return True


def _fixed(cron: Cron, instant: int) -> Iterator[int]:
    last = instant
    for local in _wall_times(cron.sim, instant + _offset(cron.zone, instant) + 1):
        found = _first_instant(cron.zone, local)
        # Times in one gap all move to its end, and times of a repeated hour may have passed already.
        if found > last:
            last = found
            yield found


def _elapsed(cron: Cron, instant: int) -> Iterator[int]:
    start = instant + 1
    while True:
        offset, end = _offset(cron.zone, start), _next_change(cron.zone, start)
        for local in _wall_times(cron.sim, start + offset):
            if local - offset >= end:
                # A clock that is set back shows the same times again, so none of them may be skipped.
                changed = _offset(cron.zone, end) != offset
                start = end if changed else max(end, local - offset - _WIDEST_SHIFT)
                break
            yield local - offset
        else:
            return


def _wall_times(sim: CronSim, start: int) -> Iterator[int]:
    """Yield the matching times of a clock that never shifts, from `start` on, as seconds of that clock."""
    walk = copy.copy(sim)
    walk.dt = _EPOCH + timedelta(seconds=start - 1)
    for found in walk:
        yield (found - _EPOCH) // _SECOND


def _first_instant(zone: tzinfo, local: int) -> int:
    """Return the instant at which the local clock first shows a time; if it never does, the first after the gap."""
    naive = _EPOCH + timedelta(seconds=local)
    late = int(naive.replace(tzinfo=zone, fold=0).timestamp())
    if late + _offset(zone, late) == local:
        return late
    early = int(naive.replace(tzinfo=zone, fold=1).timestamp())
    return _change_between(zone, early, late)


def _next_change(zone: tzinfo, start: int) -> int:
    """Return the first instant after `start` with another offset, or the end of the window."""
    before = start
    for hours in (6, 12, 18, 24):
        after = start + hours * _HOUR
        if _offset(zone, after) != _offset(zone, before):
            return _change_between(zone, before, after)
        before = after
    return start + _WINDOW


def _change_between(zone: tzinfo, before: int, after: int) -> int:
    old = _offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(zone: tzinfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset // _SECOND


# From the last to the first: six fields have the seconds in front.
_FIELDS: Final = (("weekday", 7), ("month", 12), ("day", 31), ("hour", 24), ("minute", 60), ("second", 60))
_HOW: Final = "write minute hour day month weekday, such as '30 3 * * MON-FRI', or six fields with the seconds first"
