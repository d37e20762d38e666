"""Values to JSON text and back, and what is refused on the way."""

from __future__ import annotations

import enum
import json
import math
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArguments, PayloadTooLarge, Undecodable
from holdfast.values import codec


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 9


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


class Row(msgspec.Struct):
    id: uuid.UUID
    at: datetime


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict):
    deep: bool


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    key: uuid.UUID
    points: list[Point]
    renamed: int = pydantic.Field(alias="as-is")


MODEL = Model(key=uuid.UUID(int=7), points=[Point(1)], **{"as-is": 3})
NOON = datetime(2026, 1, 2, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (None, None),
        (True, bool),
        (2**80, int),
        (-0.1, float),
        ("naïve ☃ \0 \U0001f600", str),
        (b"\x00\xff", bytes),
        (NOON, datetime),
        (NOON.astimezone(timezone(timedelta(hours=-3, minutes=-30))), datetime),
        (NOON.astimezone(ZoneInfo("Europe/Paris")), datetime),
        (date(2024, 2, 29), date),
        (time(23, 59, 59, 1), time),
        (timedelta(days=-3, microseconds=1), timedelta),
        (uuid.UUID(int=1), uuid.UUID),
        (Decimal("12345678901234567890.10"), Decimal),
        (Colour.RED, Colour),
        (Level.HIGH, Level),
        ({1, 2}, set[int]),
        (frozenset("ab"), frozenset[str]),
        ((1, "two"), tuple[int, str]),
        ({3: date(2024, 1, 1)}, dict[int, date]),
        (Point(1, 2.5), Point),
        ([Point(1), Point(2)], list[Point]),
        (Row(uuid.UUID(int=5), NOON), Row),
        (Pair(1, "x"), Pair),
        ({"deep": True}, Options),
        (MODEL, Model),
        ([MODEL], list[Model]),
        (None, Model | None),
    ],
)
def test_a_value_comes_back_as_its_own_type(value: object, type: Any) -> None:
    back = codec.decode(codec.encode(value), type)
    assert back == value
    assert back.__class__ is value.__class__


def test_the_text_is_compact_json_with_its_characters_as_they_are() -> None:
    assert codec.encode({"user_id": 42, "name": "Zoë"}) == '{"user_id":42,"name":"Zoë"}'


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Count(int):
    pass


def test_subclasses_of_text_and_numbers_are_written_as_what_they_hold() -> None:
    assert codec.encode([Shout("quiet"), Count(3)]) == '["quiet",3]'


class Ratio(float):
    pass


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, Ratio("nan")])
def test_numbers_that_json_does_not_have_are_refused_wherever_they_are(number: float) -> None:
    for value in (number, {"a": [{"b": number}]}, {"p": Point(1, number)}, {"none": None, "s": {number}}):
        with pytest.raises(InvalidArguments, match=r"is -?(nan|inf): JSON has no such number"):
            codec.encode(value)


def test_a_nan_inside_a_pydantic_model_is_refused() -> None:
    with pytest.raises(InvalidArguments, match=r"m\.points\[0\]\.y is nan"):
        codec.encode({"m": MODEL.model_copy(update={"points": [Point(1, math.nan)]})})


def test_none_beside_good_floats_is_no_nan() -> None:
    assert codec.encode({"a": None, "b": 1.5, "c": "null"}) == '{"a":null,"b":1.5,"c":"null"}'


def test_a_datetime_without_a_zone_is_refused_and_named() -> None:
    for value in ({"at": [NOON.replace(tzinfo=None)]}, {"at": [Row(uuid.UUID(int=1), NOON.replace(tzinfo=None))]}):
        with pytest.raises(InvalidArguments, match=r"at\[0\].* a datetime without a time zone; pass an aware one"):
            codec.encode(value)


def test_a_naive_datetime_is_refused_as_a_key_too() -> None:
    with pytest.raises(InvalidArguments, match="the key .* without a time zone"):
        codec.encode({NOON.replace(tzinfo=None): 1})


def test_text_that_looks_like_a_naive_datetime_is_only_text() -> None:
    assert codec.decode(codec.encode("2026-01-02T12:30:15")) == "2026-01-02T12:30:15"


def test_an_offset_with_seconds_is_refused_because_the_instant_would_change() -> None:
    with pytest.raises(InvalidArguments, match="offset from UTC has seconds"):
        codec.encode(datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Paris")))


@pytest.mark.parametrize("value", [{1: "a", "1": "b"}, [{"x": {uuid.UUID(int=1): 1, str(uuid.UUID(int=1)): 2}}]])
def test_keys_that_become_one_are_refused_and_their_place_is_named(value: object) -> None:
    with pytest.raises(InvalidArguments, match="the payload: arg has two keys that are '[0-9-]+' in JSON"):
        codec.encode({"fine": {"1": {"1": 1}}, "arg": value}, what="the payload")
    with pytest.raises(InvalidArguments, match="it has two keys"):
        codec.encode(value)


def test_a_time_whose_zone_json_cannot_keep_is_refused_and_others_are_not() -> None:
    with pytest.raises(InvalidArguments, match=r"at\[0\] is .*: its offset from UTC depends on the day"):
        codec.encode({"at": [time(12, tzinfo=ZoneInfo("Europe/Paris"))]})
    with pytest.raises(InvalidArguments, match="its offset from UTC has seconds"):
        codec.encode(time(12, tzinfo=timezone(timedelta(seconds=30))))
    for kept in (time(12), time(12, 30, tzinfo=UTC), time(12, tzinfo=timezone(timedelta(hours=2)))):
        assert codec.decode(codec.encode(kept), time) == kept


class Login(pydantic.BaseModel):
    _seen: object = pydantic.PrivateAttr(default_factory=object)
    user: str
    password: pydantic.SecretStr | None = None
    note: str = pydantic.Field(default="none", exclude=True)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Login(user="u", password=pydantic.SecretStr("hunter2")), "password"),
        (Login(user="u", note="given"), "note"),
        (Login(user="u", note="given", password=pydantic.SecretStr("x")), "password, note"),
    ],
)
def test_a_model_that_does_not_come_back_as_it_was_is_refused_with_the_fields_that_would_differ(
    model: Login, fields: str
) -> None:
    with pytest.raises(
        InvalidArguments, match=rf"the payload: arg\[0\] \(Login\) .*would differ in {fields};"
    ) as caught:
        codec.encode({"arg": [model]}, what="the payload")
    assert "hunter2" not in str(caught.value)
    assert codec.encode(model.model_dump(include={"user"})) == '{"user":"u"}'
    assert "hunter2" not in codec.encode(model, whole=False), "a result may hide what it does not show"


def test_what_is_private_to_a_model_is_no_difference() -> None:
    assert codec.decode(codec.encode(Login(user="u")), Login).user == "u"


@pytest.mark.parametrize("value", ["\ud800", {"a": "\udfff"}, {"\ud800": 1}, {"a": Point("\ud800")}])  # type: ignore[arg-type]
def test_lone_surrogates_are_refused(value: object) -> None:
    with pytest.raises(InvalidArguments, match="lone surrogate"):
        codec.encode(value)


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def test_64_levels_are_taken_and_65_refused() -> None:
    assert codec.decode(codec.encode(nested(64))) == nested(64)
    for levels in (65, 200, 100_000):
        with pytest.raises(InvalidArguments, match="nested deeper than 64 levels"):
            codec.encode(nested(levels))


def test_breadth_is_not_depth() -> None:
    value = [{"id": i, "tags": [["[[[{{{", '"\\', "\\"]]} for i in range(1000)]
    assert codec.decode(codec.encode(value)) == value


def test_closing_brackets_in_text_do_not_hide_depth() -> None:
    value: object = 1
    for _ in range(70):
        value = [']]]]"\\', value]
    with pytest.raises(InvalidArguments, match="nested deeper"):
        codec.encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidArguments, match="the payload: loop is nested deeper than 64 levels, or contains itself"):
        codec.encode({"loop": loop}, what="the payload")


def test_the_size_limit_counts_bytes_and_is_inclusive() -> None:
    assert codec.encode("é" * 4, limit=10) == '"éééé"'
    with pytest.raises(PayloadTooLarge, match="the result takes 10 bytes, the limit is 9") as caught:
        codec.encode("é" * 4, what="the result", limit=9)
    assert (caught.value.size, caught.value.limit) == (10, 9)


def test_an_object_without_a_json_form_is_named_with_its_place() -> None:
    with socket.socket() as open_socket, pytest.raises(InvalidArguments) as caught:
        codec.encode({"ok": 1, "conns": [1, {open_socket}]}, what="the payload of task 'mail'")
    assert str(caught.value).startswith("the payload of task 'mail': conns[1][0] (socket) cannot be written as JSON")


@pytest.mark.parametrize("value", [object(), 1j, range(3), Exception("x"), print, {(1, 2): 3}, {None: 1}, Point])
def test_other_objects_are_refused(value: object) -> None:
    with pytest.raises(InvalidArguments, match="cannot be written as JSON"):
        codec.encode([value])


def test_an_integer_that_python_would_not_read_back_is_refused() -> None:
    assert codec.decode(codec.encode(10**4000)) == 10**4000
    with pytest.raises(InvalidArguments, match="n has more digits than 4,300; pass it as text"):
        codec.encode({"n": 10**5000})


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a":1}x', "NaN", "[1,]", "1e999", "'a'", "[" * 100_000, r'"\ud800x"', "\ud800", b'"\xff"'],
)
def test_text_that_is_not_json_is_undecodable(text: str | bytes) -> None:
    with pytest.raises(Undecodable):
        codec.decode(text)


@pytest.mark.parametrize(
    ("text", "type", "message"),
    [
        ('"abc"', int, "expected int, got str"),
        ("1.5", int, "expected int, got float"),
        ("true", int, "expected int, got bool"),
        ('{"x":[1,"2"]}', dict[str, list[int]], "expected int, got str"),
        ('{"x":"1"}', Point, "x: expected int, got str"),
        ("{}", Point, "object missing required field x"),
        ('"green"', Colour, "invalid enum value"),
        ('{"key":1}', Model, "validation error"),
        ("{}", socket.socket, "socket has no JSON form"),
    ],
)
def test_a_value_of_another_type_is_undecodable(text: str, type: Any, message: str) -> None:
    with pytest.raises(Undecodable, match=f"(?s)the row: .*{message}"):
        codec.decode(text, type, what="the row")


def test_of_a_key_that_occurs_twice_the_last_one_counts() -> None:
    assert codec.decode('{"a":1,"a":2}') == {"a": 2}


def test_pydantic_is_not_imported_unless_the_program_did() -> None:
    program = (
        "import sys; from holdfast.values import codec; codec.decode(codec.encode({'a': 1})); "
        "sys.exit('pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
)


@given(trees)
def test_any_json_value_makes_the_round_trip(value: object) -> None:
    text = codec.encode(value)
    assert codec.decode(text) == value
    assert json.loads(text) == value


@given(trees, st.sampled_from([math.nan, math.inf, "\ud812", object(), NOON.replace(tzinfo=None)]), st.data())
def test_one_bad_leaf_anywhere_is_found(value: object, bad: object, data: st.DataObject) -> None:
    poisoned = data.draw(st.sampled_from([[value, bad], {"a": value, "b": {"c": bad}}, [[[bad]], value]]))
    with pytest.raises(InvalidArguments):
        codec.encode(poisoned)


@pytest.mark.parametrize("offset", [timedelta(microseconds=1), timedelta(microseconds=-1), timedelta(seconds=59)])
def test_an_offset_below_a_minute_is_refused_rather_than_taken_for_utc(offset: timedelta) -> None:
    with pytest.raises(InvalidArguments, match="offset from UTC"):
        codec.encode({"at": [datetime(2026, 1, 1, tzinfo=timezone(offset))]})


moments = st.datetimes(
    timezones=st.just(UTC) | st.builds(timezone, st.timedeltas(timedelta(hours=-14), timedelta(hours=14)))
)


@given(moments | st.dates() | st.timedeltas() | st.uuids() | st.decimals(allow_nan=False) | st.binary())
def test_typed_values_make_the_round_trip_or_are_refused(value: object) -> None:
    try:
        text = codec.encode(value)
    except InvalidArguments as refusal:
        assert "offset from UTC has seconds" in str(refusal)
    else:
        assert codec.decode(text, type(value)) == value


@given(st.text())
def test_any_text_is_decoded_or_undecodable(text: str) -> None:
    try:
        codec.decode(text)
    except Undecodable as error:
        assert str(error)
