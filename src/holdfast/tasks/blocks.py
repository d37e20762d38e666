"""Context managers for users, which warn when the `with` was forgotten."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

logger: Final = logging.getLogger("holdfast")


class Block(_GeneratorContextManager[T]):
    """A context manager that has an effect only inside its `with` block."""

    _used = False

    def __enter__(self) -> T:
        self._used = True
        return super().__enter__()

    def _recreate_cm(self) -> Block[T]:
        # Used as a decorator: each call enters a new one.
        self._used = True
        return super()._recreate_cm()

    def __del__(self) -> None:
        if not self._used:
            logger.warning("%s(…) does nothing by itself; write: with %s(…):", self.func.__name__, self.func.__name__)


def block(function: Callable[P, Iterator[T]]) -> Callable[P, Block[T]]:
    """Like `contextlib.contextmanager`, but the result warns if it is dropped without `with`."""

    @functools.wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
        func: Any = function
        return Block(func, args, kwargs)

    return make
