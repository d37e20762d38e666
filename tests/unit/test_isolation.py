"""Finding the bad rows of a refused batch."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.failure import Failure, FailureClass
from holdfast.rules.outbox import isolate

BAD = Failure(FailureClass.PERMANENT, "bad")
DOWN = Failure(FailureClass.TRANSIENT, "down")
BUSY = Failure(FailureClass.RATE_LIMITED, "busy", 5)


def run(answers: list[Failure | None]) -> tuple[list[int], list[FailureClass | None]]:
    """The rows that were sent, and the fate of each row."""
    sent: list[int] = []
    steps = isolate(range(len(answers)), BAD)
    try:
        row = next(steps)
        while True:
            sent.append(row)
            row = steps.send(answers[row])
    except StopIteration as end:
        fates = dict(end.value)
        return sent, [fates[n] and fates[n].kind for n in range(len(answers))]


P, T, R = FailureClass.PERMANENT, FailureClass.TRANSIENT, FailureClass.RATE_LIMITED


def test_a_row_is_given_up_once_a_sibling_succeeds() -> None:
    assert run([BAD, None, BAD, None]) == ([0, 1, 2, 3], [P, None, P, None])


def test_where_all_are_refused_all_are_kept() -> None:
    assert run([BAD, BAD, BAD]) == ([0, 1, 2], [T, T, T])


def test_a_shared_failure_ends_it_and_holds_for_every_row_in_hand() -> None:
    assert run([BAD, BUSY, None, BAD]) == ([0, 1], [R, R, R, R])


def test_a_shared_failure_after_a_success_leaves_what_is_settled() -> None:
    assert run([BAD, None, BAD, DOWN, None]) == ([0, 1, 2, 3], [P, None, P, T, T])


def test_a_batch_of_one_is_its_own_proof() -> None:
    assert run([BAD]) == ([], [P])


@given(st.lists(st.sampled_from([None, BAD, DOWN, BUSY]), min_size=2, max_size=12))
def test_nothing_is_given_up_without_a_sibling_that_succeeded(answers: list[Failure | None]) -> None:
    sent, fates = run(answers)
    assert len(fates) == len(answers)
    assert sent == list(range(len(sent)))
    if P in fates:
        assert None in fates
    is_sound: Callable[[int], bool] = lambda n: (fates[n] is None) == (n in sent and answers[n] is None)  # noqa: E731
    assert all(is_sound(n) for n in range(len(answers)))
