"""Names, durations, instants and numbers that callers give."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import names
from holdfast.errors import InvalidInput


class Queue(str, enum.Enum):  # noqa: UP042 - unlike a StrEnum's, its str() is not its value
    MAIL = "mail"


@pytest.mark.parametrize("name", ["a", "mail.send", "Ünïcode ☃", "user:42/path", "שלום", "x" * 128, "é" * 64, "👩‍💻"])
def test_a_visible_name_of_up_to_128_bytes_is_taken_as_it_is(name: str) -> None:
    assert names.check_name("the key", name) == name


def test_a_member_of_a_text_enum_counts_as_its_value() -> None:
    assert names.check_queue(Queue.MAIL) == "mail"
    assert type(names.check_queue(Queue.MAIL)) is str


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the key is empty; give it 1 to 128 bytes"),
        ("x" * 129, "the key takes 129 bytes; shorten it to 128, or use a hash of it"),
        ("é" * 65, "the key takes 130 bytes"),
        ("a\0b", "U\\+0000, a control character; remove it"),
        ("a\nb", "U\\+000A"),
        ("a\x85b", "U\\+0085"),
        ("a\u2028b", "U\\+2028, line separator"),
        ("invoice\u202efdp.exe", "U\\+202E, right-to-left override; remove it"),
        ("\ud800", "U\\+D800"),
        (None, "the key must be text, not None"),
        (b"x", "the key must be text, not bytes"),
        (3, "the key must be text, not int"),
    ],
)
def test_other_names_are_refused_with_a_remedy(name: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        names.check_name("the key", name)


@pytest.mark.parametrize("check", [names.check_queue, names.check_id])
@pytest.mark.parametrize(
    "name",
    [
        "a,b",
        "a b",
        "a\tb",
        "a\u00a0b",
        "a\u3000b",
        "a\u200bb",
        "a\ufeffb",
        "a\u00adb",
        "a\u3164b",
        "a\ufe0fb",
        "",
        None,
    ],
)
def test_queues_and_ids_hold_no_commas_white_space_or_invisible_characters(
    check: Callable[[object], str], name: object
) -> None:
    with pytest.raises(InvalidInput):
        check(name)


@pytest.mark.parametrize("name", ["default", "mail-eu_1", "очередь", "a.b:c/d"])
def test_other_queue_names_are_taken(name: str) -> None:
    assert names.check_queue(name) == names.check_id(name) == name


def test_tags_are_kept_once_and_in_order() -> None:
    assert names.check_tags(["b", "a", "b"]) == ("b", "a")
    assert names.check_tags(()) == ()


@pytest.mark.parametrize("tags", ["abc", None, {"": "1"}, [1], [""], ["x" * 65], [str(n) for n in range(33)]])
def test_bad_tags_are_refused(tags: object) -> None:
    with pytest.raises(InvalidInput):
        names.check_tags(tags)


@pytest.mark.parametrize(
    ("value", "micros"),
    [(0, 0), (60, 60_000_000), (0.5, 500_000), (1e-6, 1), (timedelta(days=1, microseconds=1), 86_400_000_001)],
)
def test_a_duration_is_seconds_or_a_timedelta(value: float | timedelta, micros: int) -> None:
    assert names.check_duration("delay", value) == micros


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "delay is negative; give 0 or more seconds"),
        (-1e-6, "negative"),
        (timedelta(seconds=-1), "negative"),
        (math.nan, "delay is nan; give a finite number of seconds"),
        (math.inf, "delay is inf"),
        (1e300, "after the year 9999"),
        pytest.param(10**5000, "after the year 9999", id="huge"),
        (timedelta.max, "after the year 9999"),
        ("60", "must be seconds or a timedelta, not str"),
        (None, "not None"),
        (True, "not bool"),
    ],
)
def test_other_durations_are_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        names.check_duration("delay", value)


def test_an_instant_is_exact_to_the_microsecond_in_any_zone() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert names.check_instant("at", moment) == 1_767_323_045_678_901
    assert names.check_instant("at", moment.astimezone(timezone(timedelta(hours=-5)))) == 1_767_323_045_678_901


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_aware_datetime_has_its_instant(moment: datetime) -> None:
    micros = names.check_instant("at", moment)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == moment


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), datetime(2026, 1, 1).date(), 5, "2026-01-01", None])
def test_naive_datetimes_and_other_things_are_no_instants(value: object) -> None:
    with pytest.raises(InvalidInput, match="at (has no time zone; pass an aware datetime|must be a datetime)"):
        names.check_instant("at", value)


@pytest.mark.parametrize("value", [-32768, 0, 32767])
def test_a_priority_has_16_bits(value: int) -> None:
    assert names.check_priority(value) == value


@pytest.mark.parametrize(("value", "stored"), [(1, 1), (1000, 1000), (None, names.UNLIMITED)])
def test_attempts_are_1_to_1000_or_without_limit(value: int | None, stored: int) -> None:
    assert names.check_attempts(value) == stored


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (names.check_priority, -32769),
        (names.check_priority, 32768),
        pytest.param(names.check_priority, 10**5000, id="huge"),
        (names.check_priority, 1.0),
        (names.check_priority, True),
        (names.check_priority, None),
        (names.check_priority, "9"),
        (names.check_attempts, 0),
        (names.check_attempts, -1),
        (names.check_attempts, 1001),
        (names.check_attempts, "5"),
        (names.check_attempts, math.inf),
    ],
)
def test_other_numbers_are_refused(check: Callable[[Any], int], value: object) -> None:
    with pytest.raises(InvalidInput, match=r"; use .* to |must be a whole number"):
        check(value)


@given(st.text(max_size=200))
def test_any_text_is_taken_unchanged_or_refused(text: str) -> None:
    for check in (names.check_queue, names.check_id, lambda value: names.check_name("the key", value)):
        try:
            assert check(text) == text
        except InvalidInput as refusal:
            assert ";" in str(refusal)
