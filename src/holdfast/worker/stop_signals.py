"""Waits for signals: none is lost between a check and a sleep, and no handler interrupts other code."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any


class Signals:
    """Handles the given signals inside a `with` block. Main thread only."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(numbers)
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        self._inlet, self._outlet = socket.socketpair()
        self._inlet.setblocking(False)
        self._outlet.setblocking(False)
        # The interpreter's C handler writes each number here at once, so a wait that begins later still sees it.
        self._wakeup_before = signal.set_wakeup_fd(self._inlet.fileno(), warn_on_full_buffer=False)
        for number in self._numbers:
            self._before[number] = signal.signal(number, _taken)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._inlet.close()
        self._outlet.close()

    def wait(self, seconds: float) -> list[int]:
        """Return the signals received, oldest first; empty after a timeout."""
        select.select([self._outlet], [], [], max(0.0, seconds))
        try:
            return list(self._outlet.recv(4096))
        except BlockingIOError:
            return []


def _taken(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number has been written to the socket already."""
