"""The shared part of the durable calls of `async def` and `def` tasks. As light to import as they are."""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType, FunctionType
from typing import TYPE_CHECKING, TypeVar

from .options import check_options

if TYPE_CHECKING:
    from ..rules.retry import RetryPolicy
    from .calls import Durable
    from .options import StepPolicy

    Self = TypeVar("Self", bound="SharedCalls")

C = TypeVar("C")


def shown_as(name: str) -> Callable[[type[C]], type[C]]:
    """Name a class's methods after the public class that has them, for Python's messages about wrong calls."""

    def rename(cls: type[C]) -> type[C]:
        for method in vars(cls).values():
            if isinstance(method, FunctionType):
                method.__qualname__ = f"{name}.{method.__name__}"
        return cls

    return rename


class SharedCalls:
    """Makes the `Durable` object of a run at its first durable call."""

    _durable: Durable | None = None
    _policy: StepPolicy | None = None

    def options(self: Self, *, max_attempts: int | EllipsisType | None = ..., retry: RetryPolicy | None = None) -> Self:
        """Return a context whose steps have these attempts in one run: `ctx.options(max_attempts=3).step(…)`."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _durable=self._calls(), _policy=check_options(max_attempts, retry))
        return twin

    def _calls(self) -> Durable:
        raise NotImplementedError

    def _check(self) -> None:
        if self._durable is not None:
            self._durable.check()
