"""Ids that sort by the time they were made."""

from __future__ import annotations

import multiprocessing
import re
import threading
import time

import pytest

from holdfast.ids import IdMaker, ids, made_at, token


def test_an_id_has_26_letters_and_digits_without_lookalikes() -> None:
    assert re.fullmatch("[0-9a-hjkmnp-tv-z]{26}", ids.new())


def test_an_id_tells_the_millisecond_in_which_it_was_made() -> None:
    maker = IdMaker()
    maker.wall = lambda: 1_795_019_710_941_909_300
    assert made_at(maker.new()) == 1_795_019_710_941_000
    assert made_at("order-4711") is None


def test_ids_sort_in_the_order_they_were_made() -> None:
    maker = IdMaker()
    made = [maker.new() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_many_ids_continue_the_same_order() -> None:
    maker = IdMaker()
    made = [maker.new(), *maker.many(1000), maker.new(), *maker.many(0), maker.new()]
    assert made == sorted(set(made))


def test_a_clock_that_steps_back_does_not_break_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = IdMaker()
    before = maker.new()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert maker.new() > before


def test_an_id_begins_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    early = IdMaker().new()
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_001_000_000)
    late = IdMaker().new()
    assert early < late


def test_makers_in_one_millisecond_do_not_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    assert len({IdMaker().new() for _ in range(1000)}) == 1000


def test_threads_never_get_the_same_id() -> None:
    maker = IdMaker()
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend([maker.new() for _ in range(2000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_a_forked_child_does_not_repeat_its_parents_ids() -> None:
    context = multiprocessing.get_context("fork")
    ids.new()
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(ids.many(100)))
    child.start()
    mine = ids.many(100)
    theirs = receiver.recv()
    child.join()
    assert not set(mine) & set(theirs)


def test_tokens_are_128_random_bits() -> None:
    assert re.fullmatch("[0-9a-f]{32}", token())
    assert token() != token()
