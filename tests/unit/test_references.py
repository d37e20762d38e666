"""Results that are not there yet, as arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.errors import InvalidArguments, UnexpectedReference
from holdfast.tasks.signature import Signature
from holdfast.values.codec import encode
from holdfast.values.references import (  # fmt: skip
    MissingInput,
    Reference,
    decode_inputs,
    encode_inputs,
    fill,
)


@dataclasses.dataclass
class Job:
    id: str
    name: str


@dataclasses.dataclass
class Order:
    rows: object
    when: datetime


A, B = Reference(Job("id-a", "a")), Reference(Job("id-b", "b"))


def merge(left: list[int], right: list[int], *more: int, label: str = "", **named: int) -> None: ...


SIGNATURE = Signature(merge, name="merge")


def round_trip(args: tuple[Any, ...], kwargs: dict[str, Any], results: dict[str, str]) -> Any:
    payload, uses = SIGNATURE.encode_with_references(args, kwargs)
    inputs = decode_inputs(encode_inputs(uses, [None] * len(uses)))
    return msgspec.json.decode(fill(payload, inputs, results))


def test_a_reference_is_replaced_by_the_result_at_every_place_where_it_stood() -> None:
    filled = round_trip((A, [1, B]), {}, {"id-a": "[1,2]", "id-b": "7"})
    assert filled == {"left": [1, 2], "right": [1, 7]}


def test_variable_arguments_may_be_references() -> None:
    filled = round_trip((A, A, B, 5), {"x": B}, {"id-a": "[]", "id-b": "7"})
    assert filled == {"left": [], "right": [], "more": [7, 5], "named": {"x": 7}}


def test_a_part_of_a_result_can_be_taken() -> None:
    filled = round_trip((A["rows"][0], [A["n"]]), {}, {"id-a": '{"rows":[[4],[5]],"n":2}'})
    assert filled == {"left": [4], "right": [2]}


def test_references_are_found_in_dataclasses_too() -> None:
    signature = Signature(lambda order: None, name="order")
    payload, uses = signature.encode_with_references((Order(A, datetime(2024, 5, 1, tzinfo=UTC)),), {})
    assert payload == '{"order":{"rows":null,"when":"2024-05-01T00:00:00Z"}}'
    assert [use.at for use in uses] == [("order", "rows")]


def test_the_other_arguments_are_checked_at_once() -> None:
    with pytest.raises(InvalidArguments, match="label: expected str, got int"):
        SIGNATURE.encode_with_references((A, []), {"label": 3})
    with pytest.raises(InvalidArguments, match="missing a required argument"):
        SIGNATURE.encode_with_references((A,), {})
    with pytest.raises(InvalidArguments, match="without a time zone"):
        Signature(None, name="elsewhere").encode_with_references((), {"a": A, "when": datetime(2024, 5, 1)})


def test_what_no_json_can_say_is_refused_beside_a_reference() -> None:
    with pytest.raises(InvalidArguments, match="object"):
        Signature(None, name="elsewhere").encode_with_references((), {"a": A, "b": object()})


def test_a_default_stands_in_for_a_job_that_did_not_succeed() -> None:
    payload, uses = SIGNATURE.encode_with_references((Reference(A.source, default=[]), B), {})
    inputs = decode_inputs(encode_inputs(uses, ["[]", None]))
    assert msgspec.json.decode(fill(payload, inputs, {"id-b": "[1]"})) == {"left": [], "right": [1]}


@pytest.mark.parametrize("results", [{}, {"id-a": "[]"}])
def test_a_result_that_is_gone_is_missed_rather_than_made_up(results: dict[str, str]) -> None:
    with pytest.raises(MissingInput, match="did not succeed or is gone"):
        round_trip((A, B), {}, results)


@pytest.mark.parametrize("result", ["null", "[]", '{"a":1}', "3"])
def test_a_part_that_the_result_does_not_have_is_missed(result: str) -> None:
    with pytest.raises(MissingInput, match="has no part"):
        round_trip((A["rows"], []), {}, {"id-a": result})


@pytest.mark.parametrize("use", [str, bool, len, list, "{}".format, lambda it: 1 in it, lambda it: f"{it}"])
def test_a_reference_cannot_be_used_as_if_it_were_there(use: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="a.output is not there yet"):
        use(A)


def test_a_reference_in_any_other_value_is_refused_by_name() -> None:
    with pytest.raises(UnexpectedReference, match=r"a.output\['x'\] is a result that is not there yet"):
        encode({"deep": [A["x"]]})
