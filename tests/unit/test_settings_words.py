"""Settings, policies and signatures that are not what they should be are refused in words, not by an accident."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from holdfast import RetryPolicy
from holdfast.config import load
from holdfast.errors import ConfigError, HoldfastError, InvalidInput, InvalidSignature
from holdfast.names import MAX_INSTANT, check_duration, check_id
from holdfast.rules.signing import new_secret
from holdfast.storage.sqlite.location import inspect, locate
from holdfast.webhooks import sign, verify


@pytest.mark.parametrize(
    ("name", "value"),
    [("pool_size", math.inf), ("pool_size", 0), ("concurrency", 2.5), ("concurrency", True), ("queues", [1, 2]),
     ("queues", 5), ("queues", ["a b"]), ("store", 5), ("store", "a\x00b"), ("schema", 7), ("spill", []), ("name", 5),
     ("name", "a\x00"), ("keep_failed", 1e300), ("lease", True), ("weights", ["=1"]), ("grace", 10**400),
     ("affinity_wait", 1e300)],
)  # fmt: skip
def test_a_setting_that_is_wrong_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name} "):
        load({name: value}, environment={})


def test_a_variable_that_is_wrong_is_refused_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match="^HOLDFAST_QUEUES: queues is wrong: .*'a b'"):
        load({}, environment={"HOLDFAST_QUEUES": "x,a b"})


def test_a_whole_number_may_be_written_in_any_way_that_says_it() -> None:
    assert load({"concurrency": 7.0}, environment={}).worker.concurrency == 7
    assert load({}, environment={"HOLDFAST_CONCURRENCY": " 7 "}).worker.concurrency == 7


def test_a_policys_age_ends_at_an_instant_that_can_be_stored() -> None:
    for age in (1e308, 1e15, 10**400, math.inf):
        with pytest.raises(ConfigError, match="RetryPolicy.max_age"):
            RetryPolicy(max_age=age)


def test_a_delay_that_grew_beyond_all_numbers_is_the_cap() -> None:
    for factor in (31_622_400, 1e6):
        assert RetryPolicy(factor=factor, cap=60.0, jitter="none").delay(10_000, 0.0) == 60.0
        assert RetryPolicy(initial=0, factor=factor, jitter="none").delay(10_000, 0.0) == 0.0


@pytest.mark.parametrize("seconds", [1e303, 1.7e308, -1e303])
def test_a_duration_that_is_beyond_all_numbers_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="^delay "):
        check_duration("delay", seconds)
    assert check_duration("delay", 1e11) == 10**17 < MAX_INSTANT


@pytest.mark.parametrize("name", ["\U0010ffff", "a\ufffe", "\ufdd0", "\U0001ffff"], ids=ascii)
def test_what_unicode_keeps_free_of_characters_is_in_no_id(name: str) -> None:
    with pytest.raises(InvalidInput, match="no character"):
        check_id(name)


def test_bytes_of_a_header_that_are_no_text_are_a_wrong_signature() -> None:
    secret = new_secret(b"x" * 32)
    good = sign(secret, "msg_1", b"{}", now=1_700_000_000)
    for name in good:
        with pytest.raises(InvalidSignature):
            verify(secret, {**good, name: good[name] + "\udcff"}, b"{}", now=1_700_000_000)


@pytest.mark.parametrize("path", ["\ud800", "x" * 5_000], ids=["surrogate", "long"])
def test_a_path_that_no_file_can_have_is_refused_in_our_words(path: str, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError):
        inspect(locate(str(tmp_path / path)), allow_unsafe_fs=True)


@pytest.mark.parametrize(
    ("store", "given", "poll"),
    [
        ("postgresql://localhost/jobs", {}, 2.0),
        ("postgresql://localhost/jobs", {"notify": False}, 0.5),
        ("postgres://localhost/jobs", {"notify": False}, 0.5),
        ("postgresql://localhost/jobs", {"notify": False, "poll": 3}, 3.0),
        ("jobs.db", {"notify": False}, 2.0),
    ],
)
def test_workers_that_nothing_wakes_look_for_work_more_often(store: str, given: dict[str, Any], poll: float) -> None:
    assert load({"store": store, **given}, environment={}).worker.poll == poll
