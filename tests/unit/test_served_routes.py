"""In which order a worker takes from its queues."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from holdfast.errors import ConfigError, InvalidInput
from holdfast.worker.claiming.routes import ServedRoutes
from holdfast.worker.settings import WorkerSettings, weights_of


def order(encoded: str) -> list[str]:
    return [route["queue"] for route in sorted(json.loads(encoded), key=lambda route: route["tier"])]


def tiers(encoded: str) -> set[int]:
    return {route["tier"] for route in json.loads(encoded)}


def test_named_queues_are_a_strict_order() -> None:
    routes = ServedRoutes(["b", "a"], [])
    assert order(routes.current()) == ["b", "a"]
    assert len(tiers(routes.current())) == 2


def test_unnamed_queues_count_as_one() -> None:
    assert len(tiers(ServedRoutes(["b", "a"], [], strict=False).current())) == 1


def test_a_queue_comes_first_as_often_as_its_weight_says() -> None:
    routes = ServedRoutes(["a", "b"], [], weights={"a": 3, "b": 1}, random=random.Random(5).random)
    first = Counter(order(routes.current())[0] for _ in range(4_000))
    assert 2_850 <= first["a"] <= 3_150


def test_every_queue_is_in_each_claim_so_an_empty_one_stalls_nobody() -> None:
    routes = ServedRoutes(["a", "b", "c"], [], weights={"a": 100}, random=random.Random(5).random)
    assert all(sorted(order(routes.current())) == ["a", "b", "c"] for _ in range(50))


def test_weights_name_the_queues_too() -> None:
    assert weights_of(("mail=3", "default=0.5")) == {"mail": 3.0, "default": 0.5}


@pytest.mark.parametrize("text", ["mail", "mail=", "mail=many", "mail=0", "mail=-1", "mail=nan", "=3", "a b=1"])
def test_a_wrong_weight_is_told_before_anything_runs(text: str) -> None:
    with pytest.raises((ConfigError, InvalidInput)):
        WorkerSettings(weights=(text,))
