"""Process identity: a key for a process that is never reused, and a check whether that process is gone.

Only a certain answer counts: if /proc, the boot or the namespace leave a doubt, the process is not gone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEAD_STATES: Final = frozenset("ZXx")


def process_key() -> str:
    """Return the boot, namespaces, pid and start ticks of this process; "" where the system does not report them."""
    scope = _scope()
    stat = _stat("self") if scope else None
    # A /proc of another pid namespace has other pids than ours, and would name other processes.
    if stat is None or stat[0] != os.getpid():
        return ""
    return f"{scope}:{stat[0]}:{stat[2]}"


def is_gone(key: str) -> bool:
    """Return True only if `key` is from this boot and namespace, and its process no longer exists."""
    scope, _, rest = key.rpartition(":")
    scope, _, pid = scope.rpartition(":")
    mine = process_key()
    if not mine or not scope or mine.rsplit(":", 2)[0] != scope or not (pid.isdecimal() and rest.isdecimal()):
        return False
    stat = _stat(pid)
    if stat is None:
        return _no_such_process(int(pid))
    return stat[2] != int(rest) or stat[1] in _DEAD_STATES


def _scope() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return f"{boot}:{namespace}:{_time_namespace()}"


def _time_namespace() -> int:
    # Start ticks are relative to the reader's time namespace, so they compare only within one.
    try:
        return (_PROC / "self/ns/time").stat().st_ino
    except OSError:
        return 0


def _stat(pid: str) -> tuple[int, str, int] | None:
    """Return pid, state and start ticks."""
    try:
        text = (_PROC / pid / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return int(head.split(" ", 1)[0]), fields[0], int(fields[19])


def _no_such_process(pid: int) -> bool:
    # With hidepid, /proc hides other users' live processes; the kernel's answer to a signal does not.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
