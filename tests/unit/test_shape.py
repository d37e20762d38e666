"""Schemas of payloads: made from types, and checked against what is sent."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Undecodable
from holdfast.rules.schemas import misfit, schema_of
from holdfast.values.codec import decode, encode


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Money:
    amount: int
    currency: str = "EUR"


class Verdict(msgspec.Struct, forbid_unknown_fields=True):
    approved: bool
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    sums: list[Money] = []
    colour: Colour | None = None


class Form(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


TYPES: list[Any] = [
    bool, int, float, str, list[int], dict[str, int], tuple[int, str], int | None, Literal["a", "b"], Colour,
    Money, Verdict, Annotated[int, msgspec.Meta(gt=3, multiple_of=2)],
    Annotated[str, msgspec.Meta(pattern="^a+$")],
]  # fmt: skip


def fits(type: Any, value: object) -> str | None:
    schema = schema_of(type)
    assert schema is not None
    return misfit(schema, encode(value))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (bool, True),
        (int, 7),
        (float, 7),
        (str, ""),
        (list[int], [1, 2]),
        (tuple[int, str], [1, "a"]),
        (int | None, None),
        (Colour, "red"),
        (datetime.date, "2026-01-01"),
        (Money, {"amount": 3}),
        (Verdict, {"approved": True, "by": "ann", "sums": [{"amount": 1, "currency": "USD"}], "colour": None}),
        (Form, {"name": "ann", "age": 3}),
        (dict[str, int], {"a": 1}),
    ],
)
def test_what_fits_a_type_fits_its_schema(type: Any, value: object) -> None:
    assert fits(type, value) is None


@pytest.mark.parametrize(
    ("type", "value", "fault"),
    [
        (bool, 1, "expected boolean, got integer"),
        (bool, "yes", "expected boolean, got string"),
        (int, True, "expected integer, got boolean"),
        (int, 1.5, "expected integer, got number"),
        (str, None, "expected string, got null"),
        (list[int], [1, "a"], "[1]: expected integer, got string"),
        (dict[str, int], {"a": "b"}, "a: expected integer, got string"),
        (Literal["a", "b"], "c", "expected one of ['a', 'b']"),
        (Colour, "green", "expected one of ['blue', 'red']"),
        (int | None, "a", "it fits none of the forms expected"),
        (Money, {}, "the field 'amount' is missing"),
        (Money, {"amount": "3"}, "amount: expected integer, got string"),
        (Verdict, {"approved": True, "by": ""}, "by: expected at least 1 characters"),
        (Verdict, {"approved": True, "by": "ann-marie"}, "by: expected at most 5 characters"),
        (Verdict, {"approved": True, "by": "a", "more": 1}, "more: nothing is expected here"),
        (Verdict, {"approved": True, "by": "a", "sums": [{}]}, "sums[0]: the field 'amount' is missing"),
        (Form, {"name": "ann", "age": -1}, "age: expected at least 0"),
        (Annotated[int, msgspec.Meta(gt=3)], 3, "expected more than 3"),
        (Annotated[int, msgspec.Meta(multiple_of=2)], 3, "expected a multiple of 2"),
        (Annotated[str, msgspec.Meta(pattern="^a+$")], "b", "it does not match '^a+$'"),
    ],
)
def test_a_misfit_is_named_with_its_place(type: Any, value: object, fault: str) -> None:
    assert fits(type, value) == fault


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.sampled_from(["", "a", "aa", "red", "EUR"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["amount", "currency", "approved", "by", "sums"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("type", TYPES)
@given(value=_JSON)
def test_nothing_that_the_type_takes_is_refused_at_the_sender(type: Any, value: object) -> None:
    text = encode(value)
    try:
        decode(text, type)
    except Undecodable:
        return
    schema = schema_of(type)
    assert schema is not None
    assert misfit(schema, text) is None


def test_any_has_no_schema_nor_has_what_json_cannot_describe() -> None:
    class Strange:
        pass

    assert [schema_of(kind) for kind in (Any, None, Strange)] == [None, None, None]


def test_a_schema_of_somebody_else_is_checked_as_far_as_it_is_understood() -> None:
    assert misfit('{"$ref": "#/$defs/gone", "weird": 1, "type": "fancy", "pattern": "("}', '"x"') is None
    assert misfit("false", "1") == "nothing is expected here"
    assert misfit('{"$ref": "#"}', "1") is None
