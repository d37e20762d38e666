"""Run a coroutine that never suspends."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def step(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` to its end with one `send`. It may await only a blocking Tx."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        coroutine.close()
    raise RuntimeError(f"{coroutine!r} suspended: an operation may await nothing but its Tx")
