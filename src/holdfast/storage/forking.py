"""Objects that must be renewed in a forked child, and those that must never be touched there.

Locks may be held by threads that do not exist in the child, and a database connection must be neither used nor
closed by two processes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object that renews itself in a forked child."""

    def renew_after_fork(self) -> None:
        """Run in the child, before anything else there."""
        ...


class Leaving(Protocol):
    """An object that must not be open at the moment of a fork."""

    def before_fork(self) -> None:
        """Run in the thread that forks: close it, and keep others from opening it."""
        ...

    def after_fork_in_parent(self) -> None:
        """Let others open it again."""
        ...


def leave_before_fork(thing: Leaving) -> None:
    """Have `thing` closed before every fork for as long as it lives."""
    _leaving.add(thing)


def renew_after_fork(thing: Forked) -> None:
    """Have `thing.renew_after_fork()` called in every forked child for as long as `thing` lives."""
    _living.add(thing)


def park(thing: object) -> None:
    """Keep `thing` for ever: not used, not closed, not collected when the interpreter ends."""
    _parked.append(thing)
    if sys.implementation.name == "cpython":
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _renew_all() -> None:
    for thing in list(_living):
        thing.renew_after_fork()


def _leave_all() -> None:
    for thing in list(_leaving):
        thing.before_fork()


def _come_back_all() -> None:
    for thing in list(_leaving):
        thing.after_fork_in_parent()


_living: WeakSet[Forked] = WeakSet()
_leaving: WeakSet[Leaving] = WeakSet()
_parked: list[object] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_leave_all, after_in_parent=_come_back_all, after_in_child=_renew_all)
