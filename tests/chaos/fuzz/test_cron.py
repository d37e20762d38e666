"""Cron near the transitions of every zone there is, against a walk through the minutes; and what is no expression."""

from __future__ import annotations

import random
import string
import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

import holdfast
from holdfast.errors import InvalidInput
from holdfast.rules.cron import parse_cron
from tests.chaos.dials import SEED, Figure, scaled

from .dice import TEXTS, dice, tampered, text
from .walker import DAYS, MONTHS, Expression, minutes_between, walk

HOUR = 3_600
YEARS = range(2015, 2038)
EACH = 32
"""Expressions for one transition."""
TICKS = 10
_NO_ZONES = ("localtime", "posixrules", "Factory")


def test_a_few_zones_agree_with_the_walk() -> None:
    compare(12)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_every_zone_agrees_with_the_walk(figure: Figure) -> None:
    compared, zones = compare(scaled(630))
    figure(compared, "inputs: cron near transitions")
    assert zones > 400 or scaled(100) < 100, f"only {zones} zones"


def test_what_is_no_expression_is_refused_and_nothing_looks_for_ever() -> None:
    refuse(400)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_much_that_is_no_expression_is_refused_and_nothing_looks_for_ever(figure: Figure) -> None:
    figure(refuse(scaled(6_000)), "inputs: malformed cron")


def compare(windows: int) -> tuple[int, int]:
    """Some expressions at each of so many places; how many were compared, in how many zones."""
    rng, zones = dice("cron"), _zones()
    rng.shuffle(zones)
    compared = 0
    for n in range(windows):
        zone = zones[n % len(zones)]
        change = _change(zone, rng.choice(YEARS), rng)
        minutes = minutes_between(zone, change - 20 * HOUR, change + 16 * HOUR)
        for _ in range(EACH):
            start, expression = change + rng.randint(-16 * HOUR, 2 * HOUR), written(rng)
            expected = list(islice(walk(Expression.read(expression), minutes, start), TICKS))
            ticks = parse_cron(expression, zone).after(start)
            found = list(islice(takewhile((minutes[-1].instant + 60).__gt__, ticks), TICKS))
            assert found == expected, (
                f"PROOF_SEED={SEED}: {expression!r} in {zone} after {start}: {found} != {expected}"
            )
            compared += 1
    return compared, min(windows, len(zones))


def refuse(count: int) -> int:
    """Any text is an expression that fires, or is refused in our words; soon, whatever it is."""
    rng = dice("no cron")
    for text_ in _texts(rng, count):
        began = time.thread_time()
        try:
            cron = parse_cron(text_, "Europe/Paris")
        except InvalidInput as error:
            assert str(error)
        else:
            start = rng.choice((-(10**9), 0, 10**9, 4 * 10**9))
            fires = list(islice(cron.after(start), 2))
            assert fires == sorted(set(fires)) and all(at > start for at in fires)
        assert time.thread_time() - began < 2, f"{text_!r} took {time.thread_time() - began:.1f} s"
    return count


@pytest.mark.parametrize("year", [1, 2, 1969, 1970, 9990, 9998, 9999])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_edges_of_time_are_refused_or_have_few_ticks(year: int, zone: str) -> None:
    app = holdfast.App(":memory:")
    for cron in ("* * * * *", "30 2 * * *", "0 0 29 2 *", "@yearly"):
        for after in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)):
            try:
                assert all(at > after for at in app.schedules.preview(cron, zone=zone, after=after, count=3))
            except InvalidInput as error:
                assert str(error)
    app.close()


def written(rng: random.Random) -> str:
    """An expression from the manual's table."""
    day, weekday = rng.choice((("*", "*"), ("*", _weekday(rng)), (_day(rng), "*"), (_day(rng), _weekday(rng))))
    month = rng.choice(("*", "*", "*", "*/2", "1-6", "3,10", "MAR-NOV", f"{rng.choice(MONTHS)},OCT,MAR"))
    fields = [_field(rng, 59), _field(rng, 23), day, month, weekday]
    return " ".join([rng.choice(("0", "30", "*/20", "5,50")), *fields] if rng.random() < 0.15 else fields)


def _field(rng: random.Random, highest: int) -> str:
    low, high, step = rng.randint(0, highest), rng.randint(0, highest), rng.randint(1, highest)
    low, high = min(low, high), max(low, high)
    return rng.choice((
        "*", "*", f"{low}", f"{low}", f"{low},{high}", f"{low}-{high}", f"*/{step}", f"{low}-{high}/{step}",
        f"{low}/{step}",
        "0", "0,30" if highest == 59 else "1,2,3", f"{low},{low}-{high}",
    ))  # fmt: skip


def _day(rng: random.Random) -> str:
    low = rng.randint(1, 31)
    return rng.choice(
        (f"{rng.randint(1, 28)}", "L", "LW", "1-15", "*/2", f"{rng.randint(1, 28)},L", "25-31", f"{low}/7", "1")
    )


def _weekday(rng: random.Random) -> str:
    name, n = rng.choice(DAYS), rng.randint(0, 7)
    return rng.choice((
        name, f"{n}", "MON-FRI", "5-7", "0,6", "SAT,SUN", f"{name}#{rng.randint(1, 5)}", f"{n}L", "*/2",
        "SUN#1,SUN#4", "1-5/2",
        "7", "0-7", "6-7,1",
    ))  # fmt: skip


def _texts(rng: random.Random, count: int) -> Iterator[str]:
    """Nonsense, near misses, and what fires seldom or never."""
    odd = [
        "0 0 30 2 *",
        "0 0 31 */2 */9",
        "0 0 */31 2 7#5",
        "0 0 29 2 MON#5",
        "* * 31 2,4 */7",
        "0 0 */30 2 0L",
        "@reboot",
    ]
    letters = string.digits + "*/,-#LW JANMONSUN\t@?"
    for n in range(count):
        kind = n % 4
        if kind == 0:
            yield "".join(rng.choices(letters, k=rng.randint(0, 24)))
        elif kind == 1:
            yield rng.choice(list(tampered(rng, written(rng))))
        elif kind == 2:
            yield rng.choice((*TEXTS, text(rng, 40), rng.choice(odd)))
        else:
            day, weekday = (
                rng.choice(("*/31", "*/30", "31", "30", "29", "L", "LW", "*/29")),
                rng.choice(("*", "*/7", "1#5", "5L")),
            )
            yield f"{rng.randint(0, 59)} {rng.randint(0, 23)} {day} {rng.choice(('2', '4', '2,4', '*'))} {weekday}"


def _change(zone: str, year: int, rng: random.Random) -> int:
    """When its clocks change that year, or some instant where they do not."""
    changes = _changes(zone, year)
    return (
        rng.choice(changes)
        if changes
        else int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) + rng.randrange(8_760) * HOUR
    )


@lru_cache(maxsize=65_536)
def _changes(zone: str, year: int) -> tuple[int, ...]:
    place, found = ZoneInfo(zone), []
    at = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    for start in range(at, at + 366 * 86_400, 86_400):
        before, after = start, start + 86_400
        if _offset(place, before) == _offset(place, after):
            continue
        while after - before > 60:
            middle = (before + after) // 120 * 60
            before, after = (middle, after) if _offset(place, middle) == _offset(place, before) else (before, middle)
        found.append(after)
    return tuple(found)


def _offset(place: ZoneInfo, at: int) -> object:
    return datetime.fromtimestamp(at, place).utcoffset()


def _zones() -> list[str]:
    return sorted(
        name
        for name in zoneinfo.available_timezones()
        if name not in _NO_ZONES and not name.startswith(("posix/", "right/"))
    )
