"""The creator stored with each job: the caller of a request, the job that a handler runs, or the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_current: Final[ContextVar[str]] = ContextVar("holdfast_creator", default="code")

creator: Final = _current.get
"""Return the current creator."""
create_as: Final = _current.set
"""Set the creator from here on, in this context."""


@contextmanager
def creating_as(name: str) -> Iterator[None]:
    """Set the creator inside a `with` block."""
    before = _current.set(name)
    try:
        yield
    finally:
        _current.reset(before)
