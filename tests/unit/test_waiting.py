"""When a wait is over, and from when on it is hopeless."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.signals import Condition
from holdfast.rules.signals import Gate, Note, chosen, hope


def mail(*texts: str) -> list[Note]:
    """`a@w1/bob` is a signal of name a at waitpoint w1 from bob."""
    notes = []
    for seq, text in enumerate(texts, 1):
        rest, _, source = text.partition("/")
        name, _, waitpoint = rest.partition("@")
        notes.append(Note(seq, name, waitpoint or None, source))
    return notes


def of(*names: str, **fields: Any) -> Condition:
    return Condition(names=names, **fields)


def at(*waitpoints: str, **fields: Any) -> Condition:
    return Condition(waitpoints=waitpoints, **fields)


@pytest.mark.parametrize(
    ("condition", "mailbox", "expected"),
    [
        (of("a"), [], None),
        (of("a"), ["b"], None),
        (of("a"), ["b", "a", "a"], [2]),
        (of("a", "b"), ["b", "a"], [1]),
        (of("a"), ["a@w1"], [1]),
        (at("w1"), ["a"], None),
        (at("w1"), ["a@w2", "a@w1"], [2]),
        # All of them.
        (of("a", "b", needed=0), ["a", "a"], None),
        (of("a", "b", needed=0), ["a", "a", "b"], [1, 3]),
        (at("w1", "w2", needed=0), ["a@w2", "a@w1"], [1, 2]),
        (Condition(names=("a",), waitpoints=("w1",), needed=0), ["a@w1"], None),
        (Condition(names=("a",), waitpoints=("w1",), needed=0), ["a@w1", "a"], [1, 2]),
        # So many of them.
        (of("a", needed=2), ["a"], None),
        (of("a", needed=2), ["a", "b", "a", "a"], [1, 3]),
        (at("w1", "w2", "w3", needed=2, distinct="waitpoints"), ["a@w1", "a@w1"], None),
        (at("w1", "w2", "w3", needed=2, distinct="waitpoints"), ["a@w1", "a@w1", "a@w3"], [1, 3]),
        (of("a", needed=2, distinct="sources"), ["a/bob", "a/bob"], None),
        (of("a", needed=2, distinct="sources"), ["a/bob", "a/bob", "a/eve"], [1, 3]),
        # Nobody but an operator, or the time.
        (Condition(), ["a", "b@w"], None),
        (Condition(needed=0), ["a"], None),
    ],
)
def test_a_condition_is_met_by_the_first_signals_that_meet_it(
    condition: Condition, mailbox: list[str], expected: list[int] | None
) -> None:
    assert chosen(condition, mail(*mailbox)) == expected


GATES = {"w1": Gate(10), "w2": Gate(20), "w3": Gate(30), "shut": Gate(99, closed=True), "many": Gate(50, once=False)}


@pytest.mark.parametrize(
    ("condition", "mailbox", "expected"),
    [
        (of("a"), [], None),
        (Condition(), [], None),
        (at("w1"), [], 10),
        (at("shut"), [], 0),
        (at("gone"), [], 0),
        (at("w1", "w2"), [], 20),
        (at("w1", "w2", needed=0), [], 10),
        (at("w1", "w2", needed=0), ["a@w1"], 20),
        (at("w1", "w2", "w3", needed=2), [], 20),
        (at("w1", "w2", "w3", needed=2), ["a@w1"], 30),
        (at("w1", needed=2), [], 0),
        (at("many", needed=5), ["a@many"], 50),
        (Condition(names=("a",), waitpoints=("w1",)), [], None),
        (Condition(names=("a",), waitpoints=("w1",), needed=0), [], 10),
    ],
)
def test_a_wait_is_hopeless_once_too_few_of_its_waitpoints_are_open(
    condition: Condition, mailbox: list[str], expected: int | None
) -> None:
    assert hope(condition, mail(*mailbox), GATES) == expected
