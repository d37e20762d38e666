"""Amounts: exact, positive, not finer than a millionth."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast.errors import InvalidAmount
from holdfast.rules.budgets import LARGEST, MICRO, check_amount, check_amounts, check_reserve, exact


@pytest.mark.parametrize(
    ("given", "millionths"),
    [
        (1, 1_000_000),
        (Decimal("0.000001"), 1),
        (0.1, 100_000),
        (Decimal("1.5000000000"), 1_500_000),
        (LARGEST, LARGEST * MICRO),
        (1e-6, 1),
    ],
)
def test_what_fits_is_kept_exactly(given: Any, millionths: int) -> None:
    assert check_amount("it", given) == millionths


@pytest.mark.parametrize(
    "given",
    [
        0, -1, 0.0, -0.5, float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("sNaN"),
        Decimal("Infinity"),
        Decimal("-1"), 0.1 + 0.2, Decimal("0.0000001"), Decimal("1e-999999999"), Decimal("1e999999999"), LARGEST + 1,
        True, None, "5", [1], 1j,
    ],
)  # fmt: skip
def test_what_does_not_is_refused(given: Any) -> None:
    with pytest.raises(InvalidAmount):
        check_amount("it", given)


def test_nothing_is_an_amount_only_where_something_was_reserved() -> None:
    assert check_amount("it", 0, zero=True) == 0
    with pytest.raises(InvalidAmount):
        check_amount("it", -1, zero=True)


@pytest.mark.parametrize("given", [None, {}, [], "tokens", 5])
def test_amounts_come_by_dimension(given: Any) -> None:
    with pytest.raises(InvalidAmount):
        check_amounts("it", given)


def test_a_reserve_option_is_checked_whole() -> None:
    assert check_reserve(None) is None
    assert check_reserve({"team": {"usd": Decimal("0.5"), "tokens": 2}}) == {
        "team": {"tokens": 2 * MICRO, "usd": 500_000}
    }
    for wrong in ("team", {"team": 5}, {"team": {}}, {"team": {"tokens": 0}}, {"team": {"tokens": float("nan")}}):
        with pytest.raises(InvalidAmount):
            check_reserve(wrong)


@pytest.mark.parametrize(
    ("millionths", "text"),
    [(0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (-250_000, "-0.25"), (10**18, "1000000000000")],
)
def test_amounts_are_shown_without_trailing_zeros(millionths: int, text: str) -> None:
    assert str(exact(millionths)) == text
