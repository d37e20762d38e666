"""Which recorded answer a durable call gets, decided without a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.journal import RunJournal
from holdfast.errors import InvalidInput, StepDiverged
from holdfast.model.steps import Step
from holdfast.rules.steps import Call, answer, find_cut


def step(key: str, position: int = 1, called: str = "f") -> Step:
    kind, _, rest = key.partition(":")
    return Step(key=key, kind=kind, name=rest.rpartition("#")[0], called=called, position=position, value="1")


def recorded(*steps: Step) -> dict[str, Step]:
    return {step.key: step for step in steps}


def test_a_call_that_was_never_recorded_has_no_answer() -> None:
    assert answer(Call("step", "load", 1, "f", 1), {}, ()) is None


def test_a_call_is_answered_by_the_entry_of_its_key_wherever_it_stands() -> None:
    known = recorded(step("step:load#1", position=7))
    assert answer(Call("step", "load", 1, "f", 2), known, ()) is known["step:load#1"]


def test_the_entry_of_another_function_is_never_used() -> None:
    with pytest.raises(StepDiverged, match="recorded for f and is asked for g"):
        answer(Call("step", "load", 1, "g", 1), recorded(step("step:load#1")), ())


@pytest.mark.parametrize(
    ("position", "asked", "diverges"),
    [(1, (), True), (2, (), False), (1, ("step:go#1",), False)],
    ids=["in its place", "elsewhere", "asked for already"],
)
def test_another_kind_of_that_name_diverges_only_in_the_same_place(
    position: int, asked: tuple[str, ...], diverges: bool
) -> None:
    known = recorded(step("step:go#1", position=1))
    call = Call("wait", "go", 1, "", position)
    if diverges:
        with pytest.raises(StepDiverged):
            answer(call, known, asked)
    else:
        assert answer(call, known, asked) is None


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30))
def test_a_run_that_makes_the_same_calls_gets_the_same_answers(names: list[str]) -> None:
    first, second = RunJournal(), RunJournal()
    calls = [first.number("step", name, "f", by="me") for name in names]
    for position, call in enumerate(calls):
        assert first.answer(call) is None
        first.add(Step(key=call.key, kind="step", name=call.name, called="f", position=position, value=str(position)))
    second.recorded = dict(first.recorded)
    again = [second.answer(second.number("step", name, "f", by="me")) for name in names]
    assert [step.value for step in again if step] == [str(n) for n in range(len(names))]


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20))
def test_whatever_a_changed_program_asks_it_never_gets_the_value_of_another_step(
    before: list[str], after: list[str]
) -> None:
    first, second = RunJournal(), RunJournal()
    for name in before:
        call = first.number("step", name, name, by="me")
        first.add(Step(key=call.key, kind="step", name=name, called=name, position=call.position, value=call.key))
    second.recorded = dict(first.recorded)
    for name in after:
        call = second.number("step", name, name, by="me")
        found = second.answer(call)
        assert found is None or found.value == call.key


def test_one_name_for_two_functions_or_by_two_tasks_is_refused() -> None:
    journal = RunJournal()
    journal.number("step", "load", "f", by="me")
    with pytest.raises(InvalidInput, match="stands for f and now for g"):
        journal.number("step", "load", "g", by="me")
    with pytest.raises(InvalidInput, match="two tasks or threads"):
        journal.number("step", "load", "f", by="another")


def test_another_task_may_use_a_name_when_all_its_calls_have_ended() -> None:
    journal = RunJournal()
    first, second = (journal.number("step", "load", "f", by="me") for _ in range(2))
    journal.end(first)
    with pytest.raises(InvalidInput, match="await the first before the second"):
        journal.number("step", "load", "f", by="another")
    journal.end(second)
    assert journal.number("step", "load", "f", by="another").nth == 3
    with pytest.raises(InvalidInput, match="two tasks or threads"):
        journal.number("step", "load", "f", by="me")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("load", "step:load#1"), ("load#2", "step:load#2"), ("sleep:#1", "sleep:#1"), ("nothing", None)],
)
def test_a_person_may_name_a_step_in_several_ways(wanted: str, found: str | None) -> None:
    steps = [step("step:load#1", 1), step("sleep:#1", 2), step("step:load#2", 3)]
    cut = find_cut(steps, wanted)
    assert (cut.key if cut else None) == found
