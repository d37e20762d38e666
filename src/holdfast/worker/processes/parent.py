"""Dying with one's parent. Imported by processes that must start fast: standard library only, and little of it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

SUPERVISOR_VARIABLE: Final = "HOLDFAST_SUPERVISOR"
WORKER_ID_VARIABLE: Final = "HOLDFAST_WORKER_ID"
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int, signum: int) -> None:
    """Have the kernel send `signum` to this process when its parent dies, or send it now if that has happened.

    Linux counts the thread that started us as the parent: it must live as long as its process means to.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    # In this order, a parent that dies between the two lines is noticed by one of them.
    if os.getppid() != parent:
        os.kill(os.getpid(), signum)


def tie_to_supervisor() -> int | None:
    """In a worker started by a supervisor: stop gracefully when it dies. The supervisor's pid, if there is one."""
    # Taken out, so that programs which a job starts do not think that the supervisor is theirs.
    text = os.environ.pop(SUPERVISOR_VARIABLE, "")
    if not text.isdecimal():
        return None
    die_with_parent(int(text), signal.SIGTERM)
    return int(text)


def take_worker_id() -> str | None:
    """The identity that a supervisor gave to this worker, once; a second worker in the process makes its own."""
    return os.environ.pop(WORKER_ID_VARIABLE, None)


def is_orphan(supervisor: int | None) -> bool:
    """Whether the supervisor that started this process is gone: a check for systems without a death signal."""
    return supervisor is not None and os.getppid() != supervisor
