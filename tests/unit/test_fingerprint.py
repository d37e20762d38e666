"""When two errors are one kind."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.rules.failure import error_json, error_text
from holdfast.rules.stats import fingerprint, normalised_message, normalised_traceback


def raised(work: Callable[[], Any]) -> str:
    try:
        work()
    except BaseException as error:
        return error_text(error)
    raise AssertionError("it did not raise")


def fail(number: int) -> None:
    raise ValueError(f"no such card {number} at {object()!r}")


def fail_elsewhere(number: int) -> None:
    raise ValueError(f"no such card {number}")


def descend(depth: int) -> None:
    if depth == 0:
        fail(1)
    descend(depth - 1)


def key(error: str, task: str = "pay") -> str:
    return fingerprint(task, error).key


def test_numbers_addresses_and_ids_in_the_message_do_not_matter() -> None:
    assert len({key(raised(lambda n=n: fail(n))) for n in (1, 2, 987_654_321)}) == 1  # type: ignore[misc]


def test_folders_and_line_numbers_do_not_matter() -> None:
    trace = json.loads(raised(lambda: fail(1)))["traceback"]
    moved = trace.replace(__file__, "C:\\other\\place\\test_fingerprint.py").replace("line ", "line 9")
    assert moved != trace
    assert normalised_traceback(moved) == normalised_traceback(trace)


def test_another_function_type_or_task_is_another_kind() -> None:
    same = raised(lambda: fail(1))
    kinds = {key(same), key(raised(lambda: fail_elsewhere(1))), key(raised(lambda: {}["x"])), key(same, task="refund")}
    assert len(kinds) == 4


def test_how_deep_a_recursion_went_does_not_matter() -> None:
    assert len({key(raised(lambda n=n: descend(n))) for n in (2, 5, 300)}) == 1  # type: ignore[misc]


def test_what_was_raised_while_handling_another_error_is_part_of_the_kind() -> None:
    def chained() -> None:
        try:
            fail(1)
        except ValueError as error:
            raise RuntimeError("gave up") from error

    def alone() -> None:
        raise RuntimeError("gave up")

    assert key(raised(chained)) != key(raised(alone))


def test_groups_of_exceptions_have_a_kind() -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(fail, 1))

    first, second = (raised(lambda: asyncio.run(group())) for _ in range(2))
    assert key(first) == key(second)


def test_frames_of_the_engine_do_not_matter() -> None:
    trace = json.loads(raised(lambda: fail(1)))["traceback"]
    head, _, rest = trace.partition("\n")
    deeper = f'{head}\n  File "/x/holdfast/worker/running/executor.py", line 7, in _call\n    return fn()\n{rest}'
    assert normalised_traceback(deeper) == normalised_traceback(trace)


def test_a_traceback_whose_beginning_was_cut_off_is_the_same_kind() -> None:
    frames = "".join(f'  File "/srv/a{n}.py", line {n}, in f{n}\n    f()\n' for n in range(50))
    whole = f"Traceback (most recent call last):\n{frames}ValueError: no\n"
    assert normalised_traceback(whole[-1500:]) == normalised_traceback(whole)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the run took longer than 30 s", "the run took longer than 2.5 s"),
        ("worker 4f2a9c00b1d2e3f4a5b6c7d8 was lost", "worker 9e8d7c6b5a49382716050403 was lost"),
        ("job 01m7f9kb4w82cgdwrxm6vs21xh gone", "job 01m7f9kb4w82cgdwrxm6vs21xm gone"),
        ("order 123e4567-e89b-12d3-a456-426614174000 gone", "order 00000000-e89b-12d3-a456-426614174999 gone"),
        ("<Card at 0x7f1>", "<Card at 0x9a2b>"),
        ("no file /srv/a/b.txt", "no file /opt/c/d.txt"),
        ("unknown name 'ann'", "unknown name 'bob'"),
    ],
)
def test_without_a_traceback_messages_that_differ_in_values_are_one_kind(one: str, other: str) -> None:
    assert normalised_message(one) == normalised_message(other)
    assert key(error_json("Timeout", one)) == key(error_json("Timeout", other))


def test_without_a_traceback_other_words_are_another_kind() -> None:
    assert key(error_json("Timeout", "the run took too long")) != key(error_json("Timeout", "the door is closed"))


@pytest.mark.parametrize("text", ["", "not json", "[1]", "null", '{"type": 5, "traceback": null}', '"x"'])
def test_whatever_is_stored_has_a_kind(text: str) -> None:
    assert len(fingerprint("t", text).key) == 16


def test_the_sample_is_the_error_itself() -> None:
    found = fingerprint("pay", raised(lambda: fail_elsewhere(7)))
    assert (found.type, found.message) == ("ValueError", "no such card 7")
    assert "fail_elsewhere" in found.traceback


def test_a_long_line_does_not_take_long() -> None:
    text = "a" * 12_000 + "1" * 2_000 + "/" * 2_000 + "'" * 1_001
    assert normalised_message(text)
    assert normalised_traceback("".join(traceback.format_exception(ValueError(text)))) == "!ValueError"
