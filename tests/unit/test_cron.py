"""Cron expressions: what is refused, and when they fire, checked against a walk through every minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.rules.cron import Cron, parse_cron

DAY = 86_400

# Whole and half hours, a shift at midnight, two shifts in a month of fasting, a day that was left out, shifts that came
# once and never again, and one by less than an hour; north and south.
TRANSITIONS = {
    "Europe/Paris": ("2024-03-31", "2024-10-27"),
    "Europe/London": ("2025-03-30", "2025-10-26"),
    "Europe/Dublin": ("2024-03-31", "2024-10-27"),
    "Europe/Moscow": ("2011-03-27", "2014-10-26"),
    "Europe/Istanbul": ("2016-03-27", "2015-11-08"),
    "America/New_York": ("2024-03-10", "2024-11-03"),
    "America/Los_Angeles": ("2030-03-10", "2030-11-03"),
    "America/St_Johns": ("2024-03-10", "2024-11-03"),
    "America/Sao_Paulo": ("2018-11-04", "2018-02-18"),
    "America/Havana": ("2024-03-10", "2024-11-03"),
    "America/Caracas": ("2016-05-01", "2007-12-09"),
    "America/Santiago": ("2024-09-08", "2024-04-07"),
    "America/Asuncion": ("2023-10-01", "2024-03-24"),
    "Africa/Cairo": ("2024-04-26", "2024-11-01"),
    "Africa/Casablanca": ("2024-04-14", "2024-03-10"),
    "Asia/Beirut": ("2024-03-31", "2024-10-27"),
    "Asia/Jerusalem": ("2024-03-29", "2024-10-27"),
    "Asia/Tehran": ("2022-03-22", "2022-09-22"),
    "Asia/Pyongyang": ("2018-05-05", "2015-08-15"),
    "Asia/Gaza": ("2023-04-29", "2023-10-28"),
    "Australia/Sydney": ("2024-10-06", "2024-04-07"),
    "Australia/Lord_Howe": ("2024-10-06", "2024-04-07"),
    "Pacific/Auckland": ("2024-09-29", "2024-04-07"),
    "Pacific/Chatham": ("2024-09-29", "2024-04-07"),
    "Pacific/Apia": ("2011-12-30", "2012-04-01"),
    "Antarctica/Troll": ("2024-03-31", "2024-10-27"),
    "Atlantic/Azores": ("2024-03-31", "2024-10-27"),
}
FIXED = ("30 2 * * *", "0 0 * * *", "0,30 1,2 * * *", "15 2-3 * * *", "59 23 * * *", "5 0/6 * * *", "0 3 * * SUN")
FLOWING = ("* * * * *", "*/15 * * * *", "*/20 2 * * *", "30 * * * *", "0 */2 * * *", "*/7 0-3 * * *", "10 */5 * * *")


def test_there_are_at_least_twenty_zones_and_each_does_shift_on_its_days() -> None:
    assert len(TRANSITIONS) >= 20
    for name, days in TRANSITIONS.items():
        for day in days:
            start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - DAY
            offsets = {_local(start + n * 900, name).utcoffset() for n in range(3 * 96)}
            assert len(offsets) == 2, (name, day)


@pytest.mark.parametrize("zone", TRANSITIONS)
def test_every_transition_agrees_with_a_walk_through_its_minutes(zone: str) -> None:
    for day in TRANSITIONS[zone]:
        start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - 2 * DAY
        for text in (*FIXED, *FLOWING):
            cron = parse_cron(text, zone)
            assert _until(cron, start, start + 4 * DAY) == list(walk(cron, start, start + 4 * DAY)), (zone, day, text)


@pytest.mark.parametrize("zone", ["Europe/Paris", "Australia/Lord_Howe", "America/New_York", "Africa/Casablanca"])
def test_stepping_from_each_tick_finds_the_same_ticks_as_one_walk(zone: str) -> None:
    for day in TRANSITIONS[zone]:
        start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - DAY
        for text in ("*/30 * * * *", "30 1,2,3 * * *"):
            cron = parse_cron(text, zone)
            at_once = list(islice(cron.after(start), 40))
            stepped = [at := start]
            while len(stepped) <= 40:
                stepped.append(at := next(cron.after(at)))
            assert stepped[1:] == at_once


def test_a_fixed_time_in_a_skipped_hour_fires_once_at_the_first_instant_after_it() -> None:
    assert _shown("30 2 * * *", "Europe/Paris", "2024-03-30T12:00", 2) == [
        "2024-03-31T03:00:00+02:00", "2024-04-01T02:30:00+02:00",
    ]  # fmt: skip
    assert _shown("0,30 2 * * *", "Europe/Paris", "2024-03-30T12:00", 2)[0] == "2024-03-31T03:00:00+02:00"
    assert _shown("0 2,3 * * *", "Europe/Paris", "2024-03-30T12:00", 2) == [
        "2024-03-31T03:00:00+02:00", "2024-04-01T02:00:00+02:00",
    ]  # fmt: skip


def test_a_fixed_time_in_a_repeated_hour_fires_once_the_first_time() -> None:
    assert _shown("30 2 * * *", "Europe/Paris", "2024-10-26T12:00", 2) == [
        "2024-10-27T02:30:00+02:00", "2024-10-28T02:30:00+01:00",
    ]  # fmt: skip


def test_an_expression_with_stars_follows_elapsed_time() -> None:
    assert _shown("*/30 * * * *", "Europe/Paris", "2024-10-27T01:30", 5) == [
        "2024-10-27T02:00:00+02:00", "2024-10-27T02:30:00+02:00", "2024-10-27T02:00:00+01:00",
        "2024-10-27T02:30:00+01:00", "2024-10-27T03:00:00+01:00",
    ]  # fmt: skip
    assert _shown("0 * * * *", "Europe/Paris", "2024-03-31T00:30", 3) == [
        "2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00", "2024-03-31T04:00:00+02:00",
    ]  # fmt: skip


def test_what_is_shown_twice_fires_twice_also_where_its_day_comes_seldom() -> None:
    assert _shown("*/30 2 * * SUN", "Europe/Paris", "2024-10-26T12:00", 5) == [
        "2024-10-27T02:00:00+02:00", "2024-10-27T02:30:00+02:00", "2024-10-27T02:00:00+01:00",
        "2024-10-27T02:30:00+01:00", "2024-11-03T02:00:00+01:00",
    ]  # fmt: skip


def test_a_range_of_one_value_is_that_value_whatever_its_step() -> None:
    for text, same in (
        ("0 4-4/14 * * *", "0 4 * * *"),
        ("0 0 * * MON-1/2", "0 0 * * 1"),
        ("05-5/7 * * * *", "5 * * * *"),
    ):
        assert _shown(text, "UTC", "2024-01-01T00:00", 9) == _shown(same, "UTC", "2024-01-01T00:00", 9)
    with pytest.raises(InvalidInput):
        parse_cron("5-5/0 * * * *")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 0 29 2 *"])
def test_ticks_end_with_the_calendar(text: str, zone: str) -> None:
    cron = parse_cron(text, zone)
    for year in (1, 9999):
        start = int(datetime(year, 12, 30, tzinfo=UTC).timestamp())
        assert all(tick > start for tick in islice(cron.after(start), 10_000))


def test_six_fields_have_the_seconds_first_and_the_same_rules() -> None:
    assert _shown("15 30 2 * * *", "Europe/Paris", "2024-03-30T12:00", 2) == [
        "2024-03-31T03:00:00+02:00", "2024-04-01T02:30:15+02:00",
    ]  # fmt: skip
    assert _shown("*/20 * * * * *", "UTC", "2024-01-01T00:00", 3) == [
        "2024-01-01T00:00:20+00:00", "2024-01-01T00:00:40+00:00", "2024-01-01T00:01:00+00:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "same"),
    [("@daily", "0 0 * * *"), ("@hourly", "0 * * * *"), ("  0  3 * * mon-fri ", "0 3 * * MON-FRI")],
)
def test_nicknames_and_loose_writing_mean_the_same(text: str, same: str) -> None:
    assert parse_cron(text).text == same


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "x", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
        "*/0 * * * *", "5-1 * * * *", "1,,2 * * * *", "a-b * * * *", "-1 * * * *", "1.5 * * * *", "0 0 ² * *",
        "0 0 * * MON#6", "1-99999999999999999999 * * * *", "@reboot", "@", "0 0 1\x00 * *", "0 0 \u202e1 * *",
        "0 0 * * 1L/2", "0 0 L-3 * *", "0 0 1#2 * *", "* * * * FOO", "0;1 * * * *", "~ * * * *",
    ],
)  # fmt: skip
def test_text_that_is_no_expression_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidInput, match="write minute hour day month weekday"):
        parse_cron(text)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 0 31 4 *", "* * 31 2 *"])
def test_text_that_never_fires_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="never fires"):
        parse_cron(text)


def test_rare_dates_are_found() -> None:
    assert _shown("0 0 29 2 *", "Europe/Paris", "2021-01-01T00:00", 2) == [
        "2024-02-29T00:00:00+01:00", "2028-02-29T00:00:00+01:00",
    ]  # fmt: skip
    assert _shown("0 0 * 2 MON#5", "UTC", "2017-01-01T00:00", 1) == ["2044-02-29T00:00:00+00:00"]


@pytest.mark.parametrize(
    "bomb",
    ["1," * 100_000 + "1 * * * *", "* " * 50_000, "*/" + "9" * 5_000 + " * * * *", "1-" * 100_000, "@" * 1_000_000],
)
def test_a_memory_bomb_is_refused_before_anything_is_made_of_it(bomb: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidInput):
        parse_cron(bomb)
    assert time.thread_time() - began < 0.1


@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["*"] * 5, object()])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        parse_cron(value)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        parse_cron("* * * * *", value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "zone",
    ["", "Mars/Base", "../etc/passwd", "/etc/localtime", "America", "localtime", "posixrules", "right/Europe/Paris",
     "posix/Europe/Paris", "a" * 10_000, "Europe/Par\x00is", "Europe/Paris\n", "CET+1", "zone.tab"],
)  # fmt: skip
def test_an_unknown_zone_is_refused_with_an_example(zone: str) -> None:
    with pytest.raises(InvalidInput, match="IANA name such as 'Europe/Paris'"):
        parse_cron("0 3 * * *", zone)


_FIELD = st.one_of(
    st.just("*"),
    st.integers(1, 30).map(lambda n: f"*/{n}"),
    st.lists(st.integers(0, 23), min_size=1, max_size=4).map(lambda ns: ",".join(map(str, ns))),
    st.tuples(st.integers(0, 11), st.integers(12, 23)).map(lambda r: f"{r[0]}-{r[1]}"),
)


@given(_FIELD, _FIELD, st.sampled_from(sorted(TRANSITIONS)), st.integers(0, 1), st.integers(0, 3 * DAY))
@settings(max_examples=150, deadline=None)
def test_any_expression_near_any_transition_agrees_with_the_walk(
    minute: str, hour: str, zone: str, which: int, into: int
) -> None:
    start = int(datetime.fromisoformat(TRANSITIONS[zone][which]).replace(tzinfo=UTC).timestamp()) - 2 * DAY + into
    cron = parse_cron(f"{minute} {hour} * * *", zone)
    assert _until(cron, start, start + DAY) == list(walk(cron, start, start + DAY))


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_no_text_whatsoever_raises_anything_but_invalid_input(text: str) -> None:
    with suppress(InvalidInput):
        parse_cron(text)


def walk(cron: Cron, start: int, end: int) -> Iterator[int]:
    """The rules as they are written down, one minute of real time after the other, from `start` up to `end`."""
    sim = CronSim(cron.text, datetime(2000, 1, 1))
    minutes = _minutes(str(cron.zone), start - DAY - (start - DAY) % 60, end)
    latest = minutes[0][1]
    for instant, local in minutes:
        if cron.is_fixed:
            # A wall time never seen before that matches, or that was reached over matching ones that never came.
            jumped = range(1, int((local - latest).total_seconds()) // 60)
            missed = any(_matches(sim, latest + timedelta(minutes=n)) for n in jumped)
            fires = local > latest and (missed or _matches(sim, local))
            latest = max(latest, local)
        else:
            fires = _matches(sim, local)
        if fires and instant >= start:
            yield instant


@lru_cache(maxsize=8)
def _minutes(zone: str, start: int, end: int) -> list[tuple[int, datetime]]:
    place = ZoneInfo(zone)
    return [(t, datetime.fromtimestamp(t, place).replace(tzinfo=None, fold=0)) for t in range(start, end, 60)]


def _until(cron: Cron, start: int, end: int) -> list[int]:
    return list(takewhile(lambda tick: tick < end, cron.after(start - 1)))


def _matches(sim: CronSim, at: datetime) -> bool:
    return at.minute in sim.minutes and at.hour in sim.hours and at.month in sim.months and sim.match_day(at.date())


def _local(instant: int, zone: str) -> datetime:
    return datetime.fromtimestamp(instant, ZoneInfo(zone))


def _shown(text: str, zone: str, after: str, n: int) -> list[str]:
    cron = parse_cron(text, zone)
    start = datetime.fromisoformat(after).replace(tzinfo=cron.zone)
    return [datetime.fromtimestamp(t, cron.zone).isoformat() for t in islice(cron.after(int(start.timestamp())), n)]
