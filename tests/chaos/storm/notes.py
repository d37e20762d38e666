"""What the processes of a storm write into the ledger.

Without an `fsync`: what `write` has taken is the kernel's, and no kill of a process takes it back. It would be needed
only where the machine itself stops, and here it does not; on a disk it would cost more than the work itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import holdfast

_handles: dict[int, int] = {}


def note(mark: str, ctx: holdfast.Context | holdfast.SyncContext) -> None:
    write(mark, ctx.id, ctx.job.epoch)


def write(mark: str, job_id: str, epoch: int = 0) -> None:
    """One line by one `write`, so that lines of different processes never mix."""
    os.write(_handle(), f"{mark} {job_id} {epoch} {os.getpid()} {time.time()}\n".encode())


@contextmanager
def refusals(what: str, ctx: holdfast.Context | holdfast.SyncContext) -> Iterator[None]:
    """Note that the store refused what a run wrote too late."""
    try:
        yield
    except holdfast.errors.LeaseLost:
        note(f"late:{what}", ctx)
        raise


def _handle() -> int:
    pid = os.getpid()
    if pid not in _handles:
        _handles[pid] = os.open(os.environ["STORM_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return _handles[pid]
