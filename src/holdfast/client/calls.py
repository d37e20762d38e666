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
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ..storage.forms import Blocking, pair
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


def reads(make: Callable[Concatenate[S, P], Op[T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that only reads."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._store().read(make(self, *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._store().aread(make(self, *args, **kwargs))

    return pair(make, call, acall)


def writes(make: Callable[Concatenate[S, P], Op[T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that writes."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._store().write(make(self, *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._store().awrite(make(self, *args, **kwargs))

    return pair(make, call, acall)


def composed(body: Callable[Concatenate[S, Line, P], Coroutine[Any, Any, T]]) -> Blocking[S, P, T]:
    """Make both forms of a method that is written as a coroutine over a line to the store."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return step(body(self, BlockingLine(self._store), *args, **kwargs))

    async def acall(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await body(self, AwaitingLine(self._store), *args, **kwargs)

    return pair(body, call, acall, takes_call=True)
