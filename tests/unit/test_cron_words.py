"""Cron expressions in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.cron_words import describe


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/30 * * * * *", "Every 30 seconds"),
        ("0 * * * *", "Every hour"),
        ("0 */6 * * *", "Every 6 hours"),
        ("15 * * * *", "At minute 15 of the hour"),
        ("0 3 * * *", "Every day at 03:00"),
        ("5 0 3 * * *", "Every day at 03:00:05"),
        ("30 8,12,18 * * *", "Every day at 08:30, 12:30 and 18:30"),
        ("0 3 * * MON-FRI", "At 03:00, Monday to Friday"),
        ("*/10 9-17 * * 1-5", "Every 10 minutes from 09:00 to 17:59, Monday to Friday"),
        ("0 0 1 1,7 *", "At 00:00, on the 1st, in January and July"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 9 * * MON#1", "At 09:00, on the first Monday of the month"),
        ("0 9 * * 5L", "At 09:00, on the last Friday of the month"),
        ("0 9 22 * 7", "At 09:00, on the 22nd or Sunday"),
    ],
)
def test_an_expression_is_said_in_words(expression: str, words: str) -> None:
    assert describe(expression) == words


def test_an_interval_is_said_in_words() -> None:
    assert describe(None, 30_000_000) == "Every 30 seconds"
    assert describe(None, 3_600_000_000) == "Every hour"
    assert describe(None, 90_000_000) == "Every 90 seconds"


@pytest.mark.parametrize("expression", ["1,2,3,4,5,6,7,8 * * * *", "0 9 */2 * MON", "5-10/2 * * * *", "nonsense", ""])
def test_what_is_too_intricate_is_left_as_it_is(expression: str) -> None:
    assert describe(expression) is None


@given(st.text(alphabet="0123456789*/,-#LW MONJA", max_size=300))
def test_no_text_makes_it_fail_or_answer_at_length(text: str) -> None:
    words = describe(text)
    assert words is None or len(words) < 600


def test_an_expression_that_stands_for_very_much_is_not_unrolled() -> None:
    assert describe("0-59/1 " + "9" * 200 + "-" + "9" * 40 + " * * *") is None
