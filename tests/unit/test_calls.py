"""Both forms of a client's method from one definition: what callers, `help` and `inspect` see of them."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import traceback
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from holdfast import App
from holdfast.client.calls import composed, reads, writes
from holdfast.client.lines import Line
from holdfast.client.tenants import Scoped
from holdfast.errors import InvalidInput
from holdfast.storage.forms import CallForm, forwarded
from holdfast.storage.ops.jobs import queries
from holdfast.storage.port import Op, Store


class Clocks:
    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def now(self, *, plus: int = 0) -> Op[int]:
        """Return the store's time."""
        if plus < 0:
            raise InvalidInput("plus is below 0")
        return Op(queries.clock, single=True)

    anow = now.awaiting

    @writes
    def lock(self) -> Op[int]:
        """Take the write lock."""
        return Op(queries.clock)

    alock = lock.awaiting

    @composed
    async def span(self, line: Line, scale: float, *, least: int = 1) -> float:
        """Return the time between two looks."""
        first = await line.read(Op(queries.clock))
        await line.write(Op(queries.clock))
        last = await line.read(Op(queries.clock))
        return max(least, last - first) * scale

    aspan = span.awaiting


class Handle:
    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks

    @forwarded
    async def later(self, call: CallForm, *, by: int = 1) -> int:
        """Return a later time."""
        return await call(self._clocks.now, self._clocks.anow, plus=0) + by

    alater = later.awaiting


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(App(":memory:").open)


def test_both_forms_give_what_the_operation_gives(clocks: Clocks) -> None:
    assert clocks.now() > 0
    assert asyncio.run(clocks.anow()) > 0
    assert clocks.lock() > 0
    assert asyncio.run(clocks.alock()) > 0


def test_both_forms_of_a_composed_method_run_its_one_body(clocks: Clocks) -> None:
    assert clocks.span(2.0, least=10**12) == 2 * 10**12
    assert asyncio.run(clocks.aspan(2.0, least=10**12)) == 2 * 10**12


def test_both_forms_of_a_forwarded_method_call_the_form_that_their_caller_can_use(clocks: Clocks) -> None:
    handle, least = Handle(clocks), clocks.now() + 10**12
    assert handle.later(by=10**12) >= least
    assert asyncio.run(handle.alater(by=10**12)) >= least
    assert str(inspect.signature(handle.alater)) == "(*, by: 'int' = 1) -> 'int'"
    with pytest.raises(TypeError, match=r"Handle\.later\(\) got an unexpected keyword argument 'to'"):
        handle.later(to=1)  # type: ignore[call-arg]


def test_what_is_checked_before_the_operation_is_raised_by_both_forms(clocks: Clocks) -> None:
    with pytest.raises(InvalidInput, match="below 0"):
        clocks.now(plus=-1)
    with pytest.raises(InvalidInput, match="below 0"):
        asyncio.run(clocks.anow(plus=-1))


def test_a_wrong_call_is_refused_under_the_methods_own_name(clocks: Clocks) -> None:
    with pytest.raises(TypeError, match=r"Clocks\.now\(\) got an unexpected keyword argument 'minus'"):
        clocks.now(minus=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Clocks\.span\(\) missing 1 required positional argument: 'scale'"):
        clocks.span()  # type: ignore[call-arg]


def test_a_traceback_shows_the_definition(clocks: Clocks) -> None:
    with pytest.raises(InvalidInput) as caught:
        clocks.now(plus=-1)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["call", "now"]


@pytest.mark.parametrize("name", ["now", "anow", "span", "aspan"])
def test_inspect_sees_the_parameters_the_result_and_the_docstring(clocks: Clocks, name: str) -> None:
    form = getattr(clocks, name)
    said, result = ("Return the store's time.", int) if "now" in name else ("Return the time between two looks.", float)
    expected = "(*, plus: 'int' = 0) -> 'int'" if "now" in name else "(scale: 'float', *, least: 'int' = 1) -> 'float'"
    assert str(inspect.signature(form)) == expected
    assert form.__doc__ == said
    assert form.__name__ == name
    assert form.__qualname__ == f"Clocks.{name}"
    assert get_type_hints(form)["return"] is result
    assert inspect.iscoroutinefunction(form) is name.startswith("a")
    assert f"def {name.removeprefix('a')}(self" in inspect.getsource(form)


def test_a_line_that_is_positional_only_leaves_the_others_as_they_are() -> None:
    assert str(inspect.signature(App(":memory:").budgets.spend)).startswith("(name: 'str', amounts: ")


def test_help_shows_both_forms() -> None:
    text = pydoc.plain(pydoc.render_doc(Clocks))
    assert "now(self, *, plus: 'int' = 0) -> 'int'" in text
    assert "async aspan(self, scale: 'float', *, least: 'int' = 1) -> 'float'" in text


def test_every_method_of_every_client_shows_the_same_in_both_forms() -> None:
    app = App(":memory:")
    pairs = [pair for client in (*vars(app).values(), *vars(app.scoped("acme")).values()) for pair in _pairs(client)]
    assert len(pairs) > 200
    for form, awaiting in pairs:
        assert form.__doc__, form
        assert awaiting.__doc__, awaiting
        if hasattr(form, "__wrapped__"):
            assert inspect.signature(form) == inspect.signature(awaiting), form
            assert "line" not in inspect.signature(form).parameters


def _pairs(client: Any) -> list[tuple[Any, Any]]:
    if not type(client).__module__.startswith("holdfast.client") or isinstance(client, Scoped):
        return []
    names = [name for name in dir(type(client)) if not name.startswith("_") and hasattr(type(client), f"a{name}")]
    return [(getattr(type(client), name), getattr(type(client), f"a{name}")) for name in names]
