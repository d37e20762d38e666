"""Kills what a dead worker left behind: run as a program of its own, it outlives a worker that was killed outright.

The kernel ends our children with us, but not the programs that they started. A guard is told the process groups of
the children on its standard input, and kills those that are left when that input ends.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable

logger = logging.getLogger("holdfast.worker")


class Guard:
    """The worker's hold on its guard. A guard that died is replaced at the next change."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Kill this group if the worker dies."""
        self._groups.add(group)
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Call it before the group's leader is reaped: afterwards its number may belong to a stranger."""
        self._groups.discard(group)
        self._say(f"-{group}\n")

    def close(self) -> None:
        """End the guard; groups that are still watched are killed."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _say(self, line: str) -> None:
        if self._process is not None and _tell(self._process, line):
            return
        try:
            self._process = self._start()
        except OSError as error:
            self._process = None
            logger.warning(
                "no guard started (%s): programs started by isolated jobs may outlive a killed worker", error
            )
        else:
            _tell(self._process, "".join(f"+{group}\n" for group in self._groups))

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated and without site: up in 15 ms, and nothing that a user installed can stop it.
        command = [self._python, "-I", "-S", __file__]
        return subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, bufsize=0
        )


def main(lines: Iterable[str]) -> None:
    """Keep account of the groups, and kill those that are left at the end."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    groups: set[int] = set()
    for line in lines:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        kill_group(group)


def kill_group(group: int) -> None:
    """SIGKILL to every process of a group, if there is any."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Nobody is left; some systems answer "not permitted" for a group of zombies.
        return


def _tell(process: subprocess.Popen[bytes], line: str) -> bool:
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
