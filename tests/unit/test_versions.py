"""Versions of tasks and ranges of them."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidVersion
from holdfast.rules.versions import check_range, check_version, fits, is_within, pin, read_pin


@pytest.mark.parametrize(
    ("version", "wanted", "is_in"),
    [
        ("2.1", ">=2,<3", True),
        ("3", ">=2,<3", False),
        ("3.0.0", ">=2,<3", False),
        ("2", ">=2.0.0", True),
        ("2.10", ">2.9", True),
        ("2.1", "2.1", True),
        ("2.1.0", "==2.1", True),
        ("2.1.1", "2.1", False),
        ("2.1.1", "2.1.*", True),
        ("2.2", "2.1.*", False),
        ("2.9.9", "2.*", True),
        ("2.0.3", ">=2,!=2.0.3", False),
        ("0", "<=0.0", True),
    ],
)
def test_a_version_is_in_a_range(version: str, wanted: str, is_in: bool) -> None:
    assert is_within(version, check_range(wanted)) is is_in


@pytest.mark.parametrize("wanted", [" >= 2 , <3.0", "<3,>=2", ">=2,<3,>=2.0"])
def test_ranges_that_mean_the_same_are_written_the_same(wanted: str) -> None:
    assert check_range(wanted) == check_range(">=2,<3")


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "latest",
        ">=",
        ">=2,",
        "2..1",
        "2.",
        ">=2.*",
        "2-3",
        "=>2",
        "^2",
        "2.x",
        "v2",
        ">=3,<2",
        ">2,<2",
        "1,2",
        ">=2,<2",
        "==1,!=1",
        "1.2.3.4.5.6.7.8.9",
        ">=9999999999",
        ">=1," * 30 + ">=1",
        2,
        None,
        ["2"],
    ],
)
def test_what_is_no_range_is_told_apart(wanted: object) -> None:
    with pytest.raises(InvalidVersion):
        check_range(wanted)


@pytest.mark.parametrize("version", ["", "2.", "v2", ">=2", "2.1b1", 2, 2.1, None])
def test_a_task_declares_one_version(version: object) -> None:
    with pytest.raises(InvalidVersion):
        check_version(version)


def test_a_pin_names_its_task() -> None:
    text = pin("render a page", check_range(">=2,<3"))
    assert read_pin(text) == ("render a page", "<3,>=2")
    assert fits(text, {"render a page": "2.5"})
    assert not fits(text, {"render a page": "1.9"})
    assert not fits(text, {"render": "2.5"})
    assert fits("", {})
