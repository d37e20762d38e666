"""A thread that notices when the event loop is blocked, and logs the code that blocks it.

A loop blocked for long counts as dead although the heartbeat continues; then the process must end.
Code that holds the GIL stops this thread too: such a worker loses its lease instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType

from ...clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger("holdfast.worker")


class Watchdog:
    """Posts a call to the loop and checks whether it was made. Create it on the loop's thread.

    `warn_after` and `give_up_after` are seconds; `on_dead` is called once, on the watchdog's thread.
    """

    def __init__(
        self,
        *,
        warn_after: float,
        give_up_after: float,
        on_dead: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not 0 < warn_after <= give_up_after:
            raise ValueError(f"warn_after must be positive and at most give_up_after: {warn_after}, {give_up_after}")
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._warn_after = warn_after
        self._give_up_after = give_up_after
        self._on_dead = on_dead
        self._clock = clock
        self._period = min(warn_after / 4, 1.0)
        self._lock = threading.Lock()
        self._asked = False
        self._stalled = 0.0
        self._warned = False
        self._gave_up = False
        self._checked_at = clock.monotonic()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start watching on a thread of its own, until `stop`."""
        threading.Thread(target=self._watch, name="holdfast-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. Does not wait."""
        self._stopping.set()

    def check_once(self) -> float:
        """Check once; return the seconds for which the loop has not answered."""
        with self._lock:
            stalled = self._count()
            warn = stalled >= self._warn_after and not self._warned
            dead = stalled >= self._give_up_after and not self._gave_up
            self._warned = self._warned or warn
            self._gave_up = self._gave_up or dead
        if warn:
            self._warn_blocked(stalled)
        if dead:
            self._give_up(stalled)
        return stalled

    def _watch(self) -> None:
        # A closed loop makes no more calls: nothing is left to watch.
        while not self._stopping.wait(self._period) and not self._loop.is_closed():
            self.check_once()

    def _count(self) -> float:
        now = self._clock.monotonic()
        passed, self._checked_at = now - self._checked_at, now
        if not self._asked:
            self._asked = True
            self._stalled = 0.0
            self._ask()
        else:
            # If the whole process was stopped (SIGSTOP, a frozen container), this check did not run either:
            # that time says nothing about the loop.
            self._stalled += min(passed, 4 * self._period)
        return self._stalled

    def _ask(self) -> None:
        with contextlib.suppress(RuntimeError):  # Closed since the check.
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        with self._lock:
            stalled = self._stalled + min(self._clock.monotonic() - self._checked_at, 4 * self._period)
            warned, self._warned, self._gave_up = self._warned, False, False
            self._asked = False
            self._stalled = 0.0
        if warned:
            logger.warning("the event loop runs again; it was blocked for %.1f s", stalled)

    def _warn_blocked(self, stalled: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        logger.warning(
            "the event loop has not moved for %.1f s: it is held by %s. All jobs of this worker wait for it; "
            "make the call async, or run it in a def task, which gets a thread.\n%s",
            stalled,
            _place(frame),
            _stack(frame),
        )

    def _give_up(self, stalled: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        logger.critical(
            "the event loop has not moved for %.1f s and is taken for dead: it is held by %s. Its jobs will be "
            "rescued by other workers.\n%s",
            stalled,
            _place(frame),
            _stack(frame),
        )
        self._on_dead()


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "a thread that has ended"
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _stack(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame)) if frame is not None else ""
