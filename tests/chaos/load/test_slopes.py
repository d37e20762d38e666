"""A rise is seen as one, noise is not."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.ids import ids

from .gauges import made_at
from .slopes import Bound, slope, trend


def test_a_straight_line_has_its_slope() -> None:
    assert slope([(float(t), 3.0 + 0.5 * t) for t in range(0, 60, 5)]) == pytest.approx(0.5)


def test_a_leak_of_a_few_bytes_per_job_is_too_steep_and_noise_is_flat() -> None:
    dice, bound = Random(1), Bound(per_hour=24.0)
    noise = [(float(t), 60.0 + dice.gauss(0, 0.3)) for t in range(0, 450, 5)]
    leak = [(t, value + t * 125 * 100 / 1e6) for t, value in noise]  # 100 bytes of each of 125 jobs a second
    assert trend("memory", "MB", noise, bound).is_flat
    assert not trend("memory", "MB", leak, bound).is_flat


def test_a_share_is_of_the_mean_over_the_time_that_was_measured() -> None:
    rising = [(float(t), 100.0 + t) for t in range(0, 61, 5)]
    assert trend("database", "MB", rising, Bound(share=0.5)).is_flat
    assert not trend("database", "MB", rising, Bound(share=0.4)).is_flat
    assert trend("database", "MB", rising, Bound(share=0.4, besides=65.0)).is_flat
    assert not trend("log", "MB", rising, Bound(most=64.0)).is_flat


def test_an_id_tells_when_it_was_made() -> None:
    before = ids.wall() // 1_000_000
    assert before <= made_at(ids.new()) <= ids.wall() // 1_000_000 + 1
