"""Both forms of a method, blocking and async, from one definition:

    class Job:
        @forwarded
        async def cancel(self, call: CallForm, *, reason: str = "cancelled") -> ActionResult:
            \"\"\"Cancel it.\"\"\"
            return await call(self._jobs.cancel, self._jobs.acancel, self.id, reason=reason)

        acancel = cancel.awaiting

The definition may await nothing but `call`, which calls the form that the caller can use. When the class is made, plain
functions replace these objects. They have the definition's parameters, without `call`, and its docstring.
`client/calls.py` has the decorators of methods that read or write a store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from types import CodeType, CoroutineType, FunctionType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from .step import step

S = TypeVar("S")
P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
U = TypeVar("U")

_HOLDS_ITS_PLACE: Final = "takes effect when its class is made"


class CallForm(Protocol):
    """Calls the form of another method that the caller can use."""

    async def __call__(
        self, blocking: Callable[Q, U], awaiting: Callable[Q, Awaitable[U]], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> U: ...


async def call_blocking(
    blocking: Callable[Q, U], awaiting: Callable[Q, Awaitable[U]], /, *args: Q.args, **kwargs: Q.kwargs
) -> U:
    return blocking(*args, **kwargs)


async def call_awaiting(
    blocking: Callable[Q, U], awaiting: Callable[Q, Awaitable[U]], /, *args: Q.args, **kwargs: Q.kwargs
) -> U:
    return await awaiting(*args, **kwargs)


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


def forwarded(body: Callable[Concatenate[S, CallForm, P], Coroutine[Any, Any, T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that calls methods which have both."""

    def blocking(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return step(body(self, call_blocking, *args, **kwargs))

    async def awaiting(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await body(self, call_awaiting, *args, **kwargs)

    return pair(body, blocking, awaiting, takes_call=True)


def pair(
    made: Callable[..., Any], call: Callable[..., Any], acall: Callable[..., Any], *, takes_call: bool = False
) -> Blocking[Any, Any, Any]:
    shown = _shown(cast(FunctionType, made), takes_call=takes_call)
    for form in (call, acall):
        form.__doc__ = shown.__doc__
        form.__module__ = shown.__module__
        form.__annotations__ = shown.__annotations__
        # Read by `help` and `inspect` for the parameters and the source.
        cast(Any, form).__wrapped__ = shown
    return Blocking(call, acall)


def _shown(made: FunctionType, *, takes_call: bool) -> FunctionType:
    """Copy a definition as its callers see it: it takes no `call` or line, and returns the result of its operation.

    The copy is never called. To make an `inspect.Signature` of each at import would take longer.
    """
    code = _without_call(made.__code__) if takes_call else made.__code__
    shown = FunctionType(code, made.__globals__, made.__name__, made.__defaults__, made.__closure__)
    shown.__kwdefaults__ = made.__kwdefaults__
    shown.__doc__ = made.__doc__
    shown.__module__ = made.__module__
    shown.__qualname__ = made.__qualname__
    given = dict(made.__annotations__)
    if takes_call:
        del given[made.__code__.co_varnames[1]]
    else:
        # Annotations are texts, by `from __future__ import annotations`.
        given["return"] = given["return"].removeprefix("Op[").removesuffix("]")
    shown.__annotations__ = given
    return shown


def _without_call(code: CodeType) -> CodeType:
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
