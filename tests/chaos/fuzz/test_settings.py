"""Settings as people mistype them: taken as what they say, or refused with an error that names the setting."""

from __future__ import annotations

import math
import random
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.config import Config, known_settings, load
from holdfast.errors import ConfigError, HoldfastError, InvalidAmount, InvalidInput
from holdfast.names import MAX_INSTANT, check_duration, check_rate, check_timeout
from holdfast.rules.budgets import check_amount
from holdfast.rules.durations import check_span
from holdfast.worker.settings import WorkerSettings
from tests.chaos.dials import Figure, scaled

from .dice import TEXTS, dice, number, text

FULL = [pytest.mark.proof, pytest.mark.timeout(0)]
WRITTEN = ("", " ", "0", "1", "-1", "2.5", "1e3", "1e400", "nan", "inf", "-inf", "9" * 5_000, "1_0", " 7 ", "0x10",
         "true", "no", "30s",
           "\u0663", "a,b", "a b", ",,", "a=1", "=", "a=nan", "1,2")  # fmt: skip
GIVEN: tuple[Any, ...] = (True, False, 0, 1, -1, 10**30, 2.5, math.nan, math.inf, -math.inf, 1e300, [1, 2], ["a b"],
         [], {"a": 1}, b"x",
                          object(), (None,), 3 + 2j, Decimal("NaN"), timedelta(1), [["a"]])  # fmt: skip
STORES = ("", " ", "mysql://x", "postgresql://", "postgresql://[", "postgresql://a:b:c/d", "postgresql://h:99999/x",
         "sqlite://", "x\x00y",
          "sqlite:///", "sqlite:////proc/x", "file:", "host=x", "://", "http://a/b", "postgres://%zz@h/d", "postgresql://h/d?x=y",
          "\ud800", "/dev/null/x", "x" * 5_000, "sqlite:///a?mode=x", ":memory:x")  # fmt: skip


@pytest.mark.parametrize("count", [400, pytest.param(scaled(8_000), marks=FULL)])
def test_a_setting_is_taken_as_it_is_said_or_refused_by_its_name(count: int, figure: Figure, tmp_path: Path) -> None:
    rng, names = dice("settings"), [name for name in known_settings() if name not in ("store", "listen_dsn")]
    for n in range(count):
        name, written = names[n % len(names)], rng.random() < 0.5
        value = rng.choice((*WRITTEN, text(rng), str(number(rng)))) if written else rng.choice((*GIVEN, number(rng)))
        try:
            config = (
                load({}, environment={f"HOLDFAST_{name.upper()}": value})
                if written
                else load({name: value}, environment={})
            )
        except (ConfigError, InvalidInput) as refused:
            assert name in str(refused) or f"HOLDFAST_{name.upper()}" in str(refused), f"{name}={value!r}: {refused}"
        else:
            _sound(config, name, value)
    figure(count, "inputs: settings")


@pytest.mark.parametrize("line", ["pool_size = inf", "queues = [1, 2]", "queues = 5", "concurrency = 2.5", "name = 5",
         "store = 5", "x", "[a]",
                                  "lease = true", "durable = 1", "keep_failed = 1e300", "schema = 7", "spill = []",
                                  "\x00", "a = 1"])  # fmt: skip
def test_a_file_is_read_or_refused_with_what_is_wrong(line: str, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(line, "utf-8")
    with pytest.raises(ConfigError, match=line.partition(" ")[0] if " " in line else None):
        load({}, environment={}, file=file)


@pytest.mark.parametrize("store", STORES, ids=ascii)
def test_a_store_that_cannot_be_is_refused_in_our_words(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        app = holdfast.App(store)
        app.queues.get("x")
        app.close()
    except HoldfastError as refused:
        assert str(refused)


@pytest.mark.parametrize("count", [500, pytest.param(scaled(12_000), marks=FULL)])
def test_durations_amounts_and_rates_are_exact_or_refused(count: int, figure: Figure) -> None:
    rng = dice("durations")
    for _ in range(count):
        value = rng.choice(
            (
                *GIVEN,
                *WRITTEN,
                number(rng),
                number(rng),
                str(number(rng)) + rng.choice("smhdw "),
                text(rng),
                -number(rng),
            )
        )
        for check in (check_duration, check_span, check_rate, check_amount):
            try:
                found = check("the setting", value)  # type: ignore[operator]
            except (InvalidInput, InvalidAmount) as refused:
                assert "the setting" in str(refused)
            else:
                assert math.isfinite(found) and 0 <= found <= MAX_INSTANT, f"{check.__name__}({value!r}) = {found!r}"
        try:
            check_timeout(value)
        except InvalidInput as refused:
            assert "timeout" in str(refused)
    figure(count, "inputs: settings")


@pytest.mark.parametrize("count", [300, pytest.param(scaled(4_000), marks=FULL)])
def test_a_retry_policy_gives_delays_that_can_be_waited_for_or_is_refused(count: int, figure: Figure) -> None:
    rng = dice("policies")
    for _ in range(count):
        given = {f.name: _for_policy(rng) for f in rng.sample(fields(holdfast.RetryPolicy), rng.randint(1, 3))}
        try:
            policy = holdfast.RetryPolicy(**given)
        except ConfigError as refused:
            assert any(f"RetryPolicy.{name}" in str(refused) for name in given), f"{given}: {refused}"
            continue
        for failures in (0, 1, 5, 62, 10**6):
            delay = policy.delay(failures, rng.random())
            assert 0 <= delay * 1e6 < 2**62, f"{policy}: {delay}"
        assert policy.max_age is None or policy.max_age * 1e6 < 2**62
    figure(count, "inputs: settings")


def _for_policy(rng: random.Random) -> Any:
    return rng.choice(
        (
            "none",
            "fixed",
            "exponential",
            "full",
            "additive",
            0,
            1,
            2.5,
            1e9,
            31_622_400,
            number(rng),
            rng.choice(GIVEN),
            rng.choice(TEXTS),
        )
    )


def _sound(config: Config, name: str, value: object) -> None:
    """What was taken has the type of its default, and can be counted with."""
    holder, default = (config.worker, WorkerSettings()) if hasattr(config.worker, name) else (config, Config())
    found, usual = getattr(holder, name), getattr(default, name)
    if isinstance(usual, bool | str | tuple):
        assert type(found) is type(usual), f"{name}={value!r} became {found!r}"
    elif isinstance(usual, int):
        assert type(found) is int and not isinstance(value, bool), f"{name}={value!r} became {found!r}"
        assert not isinstance(value, float) or value == found, f"{name}={value!r} became {found!r}"
    elif isinstance(usual, float):
        assert isinstance(found, float) and 0 <= found * 1e6 < 2**62, f"{name}={value!r} became {found!r}"
    if isinstance(found, tuple):
        assert all(isinstance(part, str) for part in found)
    if isinstance(found, str):
        assert "\x00" not in found, f"{name}={value!r} became {found!r}"
