"""Kills the processes that a dead worker left behind. As a program of its own it survives a killed worker.

The kernel kills our children with us, but not the programs that they started. A guard reads the process groups of
the children from its standard input, and kills those that are left when that input ends.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable

logger = logging.getLogger("holdfast.worker")


class OrphanGuard:
    """Controls the guard process. A guard that died is replaced at the next change."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the guard if it does not run, so that a new group is watched at once."""
        if self._process is None:
            self._send("")

    def watch(self, group: int) -> None:
        """Kill this group if the worker dies."""
        self._groups.add(group)
        self._send(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a group. Call it before the group's leader is reaped: afterwards its id may be reused."""
        self._groups.discard(group)
        self._send(f"-{group}\n")

    def close(self) -> None:
        """End the guard, which kills the groups still watched."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _send(self, line: str) -> None:
        if self._process is not None and _write(self._process, line):
            return
        try:
            self._process = self._start()
        except OSError as error:
            self._process = None
            logger.warning(
                "no guard started (%s): programs started by isolated jobs may outlive a killed worker", error
            )
        else:
            _write(self._process, "".join(f"+{group}\n" for group in self._groups))

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated and without site: starts in 15 ms, and no installed package can break it.
        command = [self._python, "-I", "-S", __file__]
        return subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, bufsize=0
        )


def main(lines: Iterable[str]) -> None:
    """Track the groups, and kill those that are left when the input ends."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    groups: set[int] = set()
    for line in lines:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        kill_group(group)


def kill_group(group: int) -> None:
    """Send SIGKILL to every process of a group, if there is any."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # No process is left; some systems answer "not permitted" for a group of zombies.
        return


def _write(process: subprocess.Popen[bytes], line: str) -> bool:
    if process.stdin is None:
        return False
    try:
        process.stdin.write(line.encode())
    except OSError:
        process.communicate()
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin)
