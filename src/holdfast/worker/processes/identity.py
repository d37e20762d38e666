"""Which process is this, and is that one gone? A name for a process that the kernel never gives twice.

Only a clear answer counts: where /proc, the boot or the namespace leave a doubt, nobody is gone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEAD_STATES: Final = frozenset("ZXx")


def process_key() -> str:
    """The boot, the namespaces, the pid and the start ticks of this process; "" where the system does not tell."""
    scope = _scope()
    stat = _stat("self") if scope else None
    # A /proc of another pid namespace counts other pids than ours, and would name strangers.
    if stat is None or stat[0] != os.getpid():
        return ""
    return f"{scope}:{stat[0]}:{stat[2]}"


def is_gone(key: str) -> bool:
    """True only if `key` was made on this boot, in this namespace, and its process exists no more."""
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
    # Start ticks are told in the reader's own time namespace, so they compare within one only.
    try:
        return (_PROC / "self/ns/time").stat().st_ino
    except OSError:
        return 0


def _stat(pid: str) -> tuple[int, str, int] | None:
    """Pid, state and start ticks."""
    try:
        text = (_PROC / pid / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, which may itself hold blanks and brackets.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return int(head.split(" ", 1)[0]), fields[0], int(fields[19])


def _no_such_process(pid: int) -> bool:
    # Mounted with hidepid, /proc hides the living processes of other users; the kernel's answer to a signal does not.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
