"""Who enqueues, as each job keeps it: the caller of a request, the job that a handler runs, or the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_current: Final[ContextVar[str]] = ContextVar("holdfast_creator", default="code")

creator: Final = _current.get
"""Return who enqueues here."""
create_as: Final = _current.set
"""Say who enqueues from here on, in this context."""


@contextmanager
def creating_as(name: str) -> Iterator[None]:
    """Say who enqueues in this block."""
    before = _current.set(name)
    try:
        yield
    finally:
        _current.reset(before)
