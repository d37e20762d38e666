"""Attributes that a step gives itself while it runs: the model and the tool that it called, what it used and cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from ..errors import InvalidInput
from ..model.steps import StepAttributes
from ..names import check_name
from ..rules.budgets import Amount, check_amount, exact

_MOST_TOKENS: Final = 2**53


class Notes:
    """The attributes of one step of a run."""

    def __init__(self, run: object) -> None:
        self._run = run
        self._attributes: StepAttributes | None = None

    @property
    def text(self) -> str | None:
        """The attributes as they are stored."""
        return None if self._attributes is None else msgspec.json.encode(self._attributes).decode()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the attributes of this block, which is one try of the step: those of an earlier try are dropped."""
        self._attributes = None
        token = _notes.set(self)
        try:
            yield
        finally:
            _notes.reset(token)

    def add(self, given: dict[str, Any]) -> None:
        self._attributes = msgspec.structs.replace(self._attributes or StepAttributes(), **given)

    def is_of(self, run: object) -> bool:
        return self._run is run


# Follows the step through the tasks and threads that it starts.
_notes: Final[ContextVar[Notes | None]] = ContextVar("holdfast_step_notes", default=None)


def describe(
    run: object,
    model: str | None,
    tool: str | None,
    input_tokens: int | None,
    output_tokens: int | None,
    cost: Amount | None,
) -> None:
    """Give attributes to the step of that run in which this is called; InvalidInput outside of a step."""
    given = {
        "model": None if model is None else check_name("the model", model),
        "tool": None if tool is None else check_name("the tool", tool),
        "input_tokens": _check_tokens("input_tokens", input_tokens),
        "output_tokens": _check_tokens("output_tokens", output_tokens),
        "cost": None if cost is None else exact(check_amount("the cost", cost, zero=True)),
    }
    notes = _notes.get()
    if notes is None or not notes.is_of(run):
        raise InvalidInput("there is no step to describe; call ctx.describe(…) in the function that ctx.step calls")
    notes.add({name: value for name, value in given.items() if value is not None})


def _check_tokens(what: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        raise InvalidInput(f"{what} is {value!r}; give a whole number of 0 or more")
    return value
