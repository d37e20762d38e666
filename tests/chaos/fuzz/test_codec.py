"""The codec: what it takes comes back as it was, on both stores; what it does not take it says, in its own error."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pydantic
import pytest

from holdfast.errors import InvalidArguments, PayloadTooLarge, Undecodable
from holdfast.model import JobFilter
from holdfast.tasks.signature import Signature
from holdfast.values.codec import MAX_DEPTH, PAYLOAD_LIMIT, decode, encode
from tests.chaos.dials import Figure, scaled

from .dice import dice, text, value
from .pair import Pair

FEW, MANY = 1_500, 24_000
# A model that was made without being checked says so when it is written; whether it is then refused is what counts.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


@dataclass
class Point:
    x: int
    y: float = 0.0
    name: str | None = None


class Box(msgspec.Struct):
    points: list[Point]
    tags: dict[str, int] = {}


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str
    age: int


HINTS = (int, float, bool, str, bytes, list[int], dict[str, float], tuple[int, str], set[str], Point, Box, Person,
         datetime,
         int | None, Point | None, list[Person], Any)  # fmt: skip


def poisons() -> tuple[Any, ...]:
    """What JSON has no word for, or would quietly change."""
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    return (
        math.nan, math.inf, -math.inf, "\ud800", "a\udfff", object(), cycle, *map(deep, (MAX_DEPTH + 1, 200, 20_000)),
        {None: 1}, {(1, 2): 3}, {"\udc00": 1}, 10**5_000, datetime(2026, 1, 1), datetime(2026, 1, 1,
        tzinfo=timezone(timedelta(seconds=30))),
        lambda: None, complex(1, 2), range(3), type, iter([1]), x_of_itself(),
    )  # fmt: skip


def deep(levels: int) -> Any:
    found: Any = 1
    for level in range(levels):
        found = [found] if level % 3 else {"a": found}
    return found


def x_of_itself() -> Any:
    point = Point(1)
    point.x = point  # type: ignore[assignment]
    return point


def test_values_come_back_and_poison_is_refused() -> None:
    survive(FEW)
    refuse(FEW // 5)
    decode_damaged(FEW)
    fit_or_be_refused(FEW)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_many_values_come_back_and_poison_is_refused(figure: Figure) -> None:
    tries: tuple[tuple[Callable[[int], int], int], ...] = (
        (survive, MANY), (refuse, MANY // 8), (decode_damaged, MANY // 2), (fit_or_be_refused, MANY // 2),
    )  # fmt: skip
    figure(sum(run(scaled(count)) for run, count in tries), "inputs: codec")


def survive(count: int) -> int:
    """Whatever is accepted is read back as it was, of the same types."""
    rng = dice("codec")
    for _ in range(count):
        given = value(rng)
        found = decode(encode(given))
        assert repr(found) == repr(given), f"{given!r} came back as {found!r}"
    return count


def refuse(count: int) -> int:
    """Poison in any place of any value is refused, by one error, which says what is wrong."""
    rng = dice("poison")
    each = poisons()
    for n in range(count):
        poison = each[n % len(each)]
        with pytest.raises(InvalidArguments) as refused:
            encode(_hidden(rng, poison))
        assert 10 < len(str(refused.value)) < 10_000
    for large in (
        "x" * 10_000_000,
        ["x" * 100] * 100_000,
        {"a": "é" * (PAYLOAD_LIMIT // 2)},
        {str(n): n for n in range(50_000)},
    ):
        with pytest.raises(PayloadTooLarge):
            encode(large)
    return count


def decode_damaged(count: int) -> int:
    """Damaged text is read as something, or is Undecodable; never anything else."""
    rng = dice("damage")
    for _ in range(count):
        data = bytearray(encode(value(rng)).encode())
        for _ in range(rng.randint(1, 3)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            decode(bytes(data), rng.choice(HINTS))
        except Undecodable as error:
            assert str(error)
    return count


def fit_or_be_refused(count: int) -> int:
    """A call is stored only where its task can read it back to the same call."""
    rng = dice("signatures")
    takes = [_signature(hint) for hint in HINTS]
    for n in range(count):
        signature, given = takes[n % len(takes)], _fitting(rng, HINTS[n % len(takes)])
        try:
            stored = signature.encode([given], {})
        except (InvalidArguments, PayloadTooLarge):
            continue
        once = signature.decode(stored)
        again = signature.decode(signature.encode(*once))
        # Sets are alike in any order, and what is not equal to itself has the same text.
        assert once == again or repr(once) == repr(again), (
            f"{given!r} for {HINTS[n % len(takes)]}: {once!r}, then {again!r}"
        )
        assert not (HINTS[n % len(takes)] in (int, float) and isinstance(given, bool))
    return count


@pytest.mark.parametrize("count", [40, pytest.param(scaled(500), marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_what_is_accepted_goes_through_the_columns_of_both_stores_unharmed(
    pair: Pair, count: int, figure: Figure
) -> None:
    for app in pair:
        rng = dice("columns")
        given = [value(rng) for _ in range(count)]
        jobs = app.enqueue_many([app.tasks["echo"].job(one) for one in given])
        app.drain()
        stored = {job.id: job for job in app.jobs.find(JobFilter(limit=count))}
        for one, job in zip(given, jobs, strict=True):
            assert repr(decode(stored[job.id].payload)["value"]) == repr(one)
            assert repr(decode(stored[job.id].result or "")) == repr(one)
    figure(2 * count, "inputs: codec")


def _hidden(rng: random.Random, poison: Any) -> Any:
    """Somewhere in a value."""
    found = poison
    for _ in range(rng.randint(0, 3)):
        found = [value(rng, 4), found] if rng.random() < 0.5 else {"a": value(rng, 4), text(rng, 4) + "k": found}
    return found


def _signature(hint: Any) -> Signature:
    def task(given: Any) -> None: ...

    task.__annotations__ = {"given": hint, "return": None}
    return Signature(task, name="task")


def _fitting(rng: random.Random, hint: Any) -> Any:
    """Something that fits a type now and then."""
    if rng.random() < 0.5:
        return value(rng)
    some = (
        Point(rng.randint(0, 9)), Point("x"), Box([Point(1)]), Box([1]), {"x": 1}, {"points": []},  # type: ignore[arg-type, list-item]
        Person(name="a", age=1), Person.model_construct(name=1, age="x"), {"name": "a", "age": 1}, b"\x00\xff", {"a",
        "b"},
        (1, "a"), (1,), True, 1.0, datetime.now(UTC), datetime.min.replace(tzinfo=UTC), [True], {"a": True}, [1.0],
    )  # fmt: skip
    return rng.choice(some)
