"""Both forms of a client's method, blocking and awaiting, from one definition:

    class Queues:
        @writes
        def pause(self, queue: str, *, actor: str = "app", reason: str = "") -> Op[None]:
            \"\"\"Start no more jobs of a queue, until `resume`.\"\"\"
            return Op(lambda tx: queues.pause(tx, check_queue(queue), actor=actor, reason=reason))

        apause = pause.awaiting

`reads` and `writes` take a method that makes one operation, and run it on `self._store()`. `composed` takes a coroutine
over a `Line`, for a method that reads or writes several times, or processes the result. It may await nothing but the
line: `await line.read(op)`. When the class is made, plain functions replace these objects. They have the definition's
parameters and docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CodeType, CoroutineType, FunctionType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from ..storage.port import Op, Store
from ..storage.step import step
from .lines import AwaitingLine, BlockingLine, Line


class Client(Protocol):
    """A class whose methods act on a store."""

    @property
    def _store(self) -> Callable[[], Store]: ...


S = TypeVar("S", bound=Client)
P = ParamSpec("P")
T = TypeVar("T")

_HOLDS_ITS_PLACE: Final = "takes effect when its class is made"


class Awaiting(Generic[S, P, T]):
    """The async version of a method."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __set_name__(self, owner: type, name: str) -> None:
        _place(owner, name, self._call)

    # Type checkers compare a protocol's method with this.
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> CoroutineType[Any, Any, T]:
        raise TypeError(_HOLDS_ITS_PLACE)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, CoroutineType[Any, Any, T]]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        raise TypeError(_HOLDS_ITS_PLACE)


class Blocking(Generic[S, P, T]):
    """The blocking form of a method. `awaiting` is its async version."""

    def __init__(self, call: Callable[..., Any], acall: Callable[..., Any]) -> None:
        self._call = call
        self.awaiting: Awaiting[S, P, T] = Awaiting(acall)

    def __set_name__(self, owner: type, name: str) -> None:
        _place(owner, name, self._call)

    # Type checkers compare a protocol's method with this.
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        raise TypeError(_HOLDS_ITS_PLACE)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[S, P], T]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, T]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        raise TypeError(_HOLDS_ITS_PLACE)


def reads(make: Callable[Concatenate[S, P], Op[T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that only reads."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._store().read(make(self, *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._store().aread(make(self, *args, **kwargs))

    return _pair(make, call, acall)


def writes(make: Callable[Concatenate[S, P], Op[T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that writes."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._store().write(make(self, *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._store().awrite(make(self, *args, **kwargs))

    return _pair(make, call, acall)


def composed(body: Callable[Concatenate[S, Line, P], Coroutine[Any, Any, T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that is written as a coroutine over a line to the store."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return step(body(self, BlockingLine(self._store), *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await body(self, AwaitingLine(self._store), *args, **kwargs)

    return _pair(body, call, acall, over_line=True)


def _pair(
    made: Callable[..., Any], call: Callable[..., Any], acall: Callable[..., Any], *, over_line: bool = False
) -> Blocking[Any, Any, Any]:
    shown = _shown(cast(FunctionType, made), over_line=over_line)
    for form in (call, acall):
        form.__doc__ = shown.__doc__
        form.__module__ = shown.__module__
        form.__annotations__ = shown.__annotations__
        # Read by `help` and `inspect` for the parameters and the source.
        cast(Any, form).__wrapped__ = shown
    return Blocking(call, acall)


def _shown(made: FunctionType, *, over_line: bool) -> FunctionType:
    """Copy a definition as its callers see it: it takes no line, and returns the result of its operation.

    The copy is never called. To make an `inspect.Signature` of each at import would take longer.
    """
    code = _without_line(made.__code__) if over_line else made.__code__
    shown = FunctionType(code, made.__globals__, made.__name__, made.__defaults__, made.__closure__)
    shown.__kwdefaults__ = made.__kwdefaults__
    shown.__doc__ = made.__doc__
    shown.__module__ = made.__module__
    shown.__qualname__ = made.__qualname__
    given = dict(made.__annotations__)
    if over_line:
        del given[made.__code__.co_varnames[1]]
    else:
        # Annotations are texts, by `from __future__ import annotations`.
        given["return"] = given["return"].removeprefix("Op[").removesuffix("]")
    shown.__annotations__ = given
    return shown


def _without_line(code: CodeType) -> CodeType:
    me, _, *others = code.co_varnames
    return code.replace(
        co_argcount=code.co_argcount - 1,
        co_posonlyargcount=max(code.co_posonlyargcount - 1, 0),
        co_varnames=(me, *others),
        co_nlocals=code.co_nlocals - 1,
    )


def _place(owner: type, name: str, form: Callable[..., Any]) -> None:
    form.__name__ = name
    form.__qualname__ = f"{owner.__qualname__}.{name}"
    setattr(owner, name, form)
