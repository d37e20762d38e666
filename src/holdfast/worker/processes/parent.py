"""Ends a process when its parent dies. Imported by processes that must start fast: little of the standard library."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

SUPERVISOR_VARIABLE: Final = "HOLDFAST_SUPERVISOR"
WORKER_ID_VARIABLE: Final = "HOLDFAST_WORKER_ID"
HEALTH_PIPE_VARIABLE: Final = "HOLDFAST_HEALTH_PIPE"
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int, signum: int) -> None:
    """Have the kernel send `signum` to this process when its parent dies, or send it now if that has happened.

    Linux counts the thread that started us as the parent: it must live as long as its process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    # In this order, one of the two lines notices a parent that dies between them.
    if os.getppid() != parent:
        os.kill(os.getpid(), signum)


def tie_to_supervisor() -> int | None:
    """Stop this worker gracefully when its supervisor dies; return the supervisor's pid, if there is one."""
    # Removed, so that programs started by a job do not take the supervisor for theirs.
    text = os.environ.pop(SUPERVISOR_VARIABLE, "")
    if not text.isdecimal():
        return None
    die_with_parent(int(text), signal.SIGTERM)
    return int(text)


def take_worker_id() -> str | None:
    """Return the id that a supervisor gave to this worker, once; a second worker in the process makes its own."""
    return os.environ.pop(WORKER_ID_VARIABLE, None)


def is_orphan(supervisor: int | None) -> bool:
    """Return True if the supervisor that started this process is gone. For systems without a death signal."""
    return supervisor is not None and os.getppid() != supervisor
