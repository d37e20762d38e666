"""Amounts of tokens, money, seconds: exact numbers outside, whole millionths inside. No float is ever added up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from ..errors import InvalidAmount
from ..names import check_name

Amount: TypeAlias = "int | float | Decimal"
Amounts: TypeAlias = "Mapping[str, Amount]"

MICRO: Final = 1_000_000
LARGEST: Final = 10**12
# The sum of many must still fit into 64 bits.
CEILING: Final = 9 * 10**18
# Beyond this no trailing zero is meant.
_DIGITS: Final = 60


def check_amounts(what: str, given: object, *, zero: bool = False) -> dict[str, int]:
    """Amounts by dimension as millionths, sorted by dimension; at least one. With `zero`, nothing is an amount too."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidAmount(f"{what} needs amounts by dimension, such as tokens=4000")
    found = {
        check_name("the dimension", name): check_amount(f"{what}: {name}", value, zero=zero)
        for name, value in given.items()
    }
    return dict(sorted(found.items()))


def check_reserve(given: object) -> dict[str, dict[str, int]] | None:
    """Check the amounts that a job reserves before it starts, by budget and dimension."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidAmount(f"reserve is {given!r}; give amounts by budget, such as {{'team': {{'tokens': 4000}}}}")
    found = {
        check_name("the budget's name", name): check_amounts(f"reserve in {name!r}", amounts)
        for name, amounts in given.items()
    }
    return found or None


def check_amount(what: str, value: object, *, zero: bool = False) -> int:
    """One amount as millionths."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidAmount(f"{what} must be a number, not {type(value).__qualname__}")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidAmount(f"{what} is {value}; give a finite number")
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise InvalidAmount(f"{what} is {value}; give a finite number")
    if value < 0 or (value == 0 and not zero):
        raise InvalidAmount(f"{what} is {value}; give {'0 or more' if zero else 'more than 0'}")
    if value > LARGEST:
        raise InvalidAmount(f"{what} is too large; give at most {LARGEST:,}")
    return _millionths(what, value)


def exact(millionths: int) -> Decimal:
    """Return an amount as people read it, without trailing zeros."""
    whole, rest = divmod(abs(millionths), MICRO)
    sign = "-" if millionths < 0 else ""
    return Decimal(f"{sign}{whole}.{rest:06d}".rstrip("0").rstrip("."))


def in_units(text: str) -> str:
    """Stored amounts by dimension, which are millionths, as JSON that people read."""
    shown = (f"{json.dumps(name)}: {exact(millionths):f}" for name, millionths in json.loads(text).items())
    return "{" + ", ".join(shown) + "}"


def _millionths(what: str, value: int | Decimal) -> int:
    if isinstance(value, int):
        return value * MICRO
    exponent = value.as_tuple().exponent
    scaled = Fraction(value) * MICRO if isinstance(exponent, int) and exponent >= -_DIGITS else None
    if scaled is None or scaled.denominator != 1:
        raise InvalidAmount(f"{what} is {value}, which is finer than a millionth; round it to 6 decimals")
    return int(scaled)
