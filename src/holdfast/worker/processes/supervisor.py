"""Runs N worker processes: starts them, restarts crashed ones, forwards signals, and stops them when it stops.

It uses neither the store nor the tasks. For a worker that ends with a code other than 0, `on_lost` is called with its
id, so that its jobs can be rescued at once.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final

from ...clock import SYSTEM_CLOCK, Clock
from ...ids import token
from .orphan_guard import kill_group
from .parent import HEALTH_PIPE_VARIABLE, SUPERVISOR_VARIABLE, WORKER_ID_VARIABLE

logger = logging.getLogger("holdfast.worker")

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
HEALTHY_AFTER: Final = 60.0
# One stop often arrives twice: from the terminal to the whole group, and again from a process that forwards it.
ONE_STOP: Final = 0.25
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class Slot:
    """One of the N places: a running worker, or the time of the next start."""

    number: int
    due: float
    process: subprocess.Popen[bytes] | None = None
    worker_id: str = ""
    started_at: float = 0.0
    failures: int = 0


class Supervisor:
    """Starts `count` processes of `argv`. `run` is for the command line; `step` is one iteration of it.

    `stop_after`: seconds that the workers get to stop before they are killed; None is without limit. `open_pipe`
    returns the end of a pipe that the next process of a slot reports its health to.
    """

    def __init__(
        self,
        argv: Sequence[str],
        count: int,
        *,
        on_lost: Callable[[str], None],
        env: Mapping[str, str] | None = None,
        stop_after: float | None = None,
        open_pipe: Callable[[int], int] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if count < 1:
            raise ValueError(f"at least one process is needed, not {count}")
        self._argv = list(argv)
        self._on_lost = on_lost
        self._env = dict(os.environ if env is None else env)
        self._stop_after = stop_after
        self._open_pipe = open_pipe
        self._clock = clock
        self.slots: Final = tuple(Slot(number, clock.monotonic()) for number in range(1, count + 1))
        self._stopping = False
        self._stopped_at: float | None = None
        self._kill_at: float | None = None
        self._exit_code = 0
        self._reporters: list[threading.Thread] = []

    def run(self) -> int:
        """Supervise until every worker has stopped; return 0 if all stopped cleanly. Main thread only, for signals."""
        with StopSignals((*_STOP_SIGNALS, signal.SIGCHLD)) as signals:
            while (pause := self.step()) is not None:
                if set(signals.wait(pause)) & set(_STOP_SIGNALS):
                    self._on_stop_signal()
        for reporter in self._reporters:
            reporter.join(5.0)
        return self._exit_code

    def step(self) -> float | None:
        """Reap ended workers and start those due; return the longest wait in seconds, None when all have ended."""
        for slot in self.slots:
            self._reap(slot)
        now = self._clock.monotonic()
        if self._stopping:
            return self._step_down(now)
        for slot in self.slots:
            if slot.process is None and slot.due <= now:
                self._start(slot)
        return min([60.0, *(slot.due - now for slot in self.slots if slot.process is None)])

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        """Ask the workers to stop; the second time, kill them."""
        now = self._clock.monotonic()
        if self._stopping:
            logger.warning("second signal: killing the workers; their jobs will be rescued")
            self._kill_at = now
            self._kill()
            return
        logger.info("stopping: the workers finish what they have; a second signal kills them")
        self._stopping = True
        self._kill_at = None if self._stop_after is None else now + self._stop_after
        for slot in self._alive():
            if slot.process is not None:
                slot.process.terminate()

    def _on_stop_signal(self) -> None:
        now = self._clock.monotonic()
        if self._stopped_at is None or now - self._stopped_at > ONE_STOP:
            self._stopped_at = now
            self.stop()

    def _step_down(self, now: float) -> float | None:
        if not self._alive():
            return None
        if self._kill_at is None:
            return 60.0
        if self._kill_at <= now:
            self._kill()
            return 1.0
        return self._kill_at - now

    def _alive(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.process is not None]

    def _kill(self) -> None:
        for slot in self._alive():
            if slot.process is not None and slot.process.poll() is None:
                kill_group(slot.process.pid)

    def _start(self, slot: Slot) -> None:
        slot.worker_id = token()
        slot.started_at = self._clock.monotonic()
        try:
            slot.process = self._launch(slot)
        except OSError as error:
            self._plan(slot, f"could not be started ({error})")
        else:
            logger.info("worker process %d started: pid %d, %s", slot.number, slot.process.pid, slot.worker_id)

    def _launch(self, slot: Slot) -> subprocess.Popen[bytes]:
        extra = {WORKER_ID_VARIABLE: slot.worker_id, SUPERVISOR_VARIABLE: str(os.getpid())}
        pipes = [] if self._open_pipe is None else [self._open_pipe(slot.number)]
        if pipes:
            extra[HEALTH_PIPE_VARIABLE] = str(pipes[0])
        try:
            # A session of its own: Ctrl-C in a terminal must reach a worker only once, from us.
            return subprocess.Popen(  # noqa: S603 - the command line of this very program
                self._argv, env={**self._env, **extra}, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=pipes
            )
        finally:
            for pipe in pipes:
                os.close(pipe)

    def _reap(self, slot: Slot) -> None:
        code = slot.process.poll() if slot.process is not None else None
        if code is None:
            return
        slot.process = None
        if code != 0:
            self._report_lost(slot.worker_id)
        if self._stopping:
            # SIGTERM: the stop came before its handler was installed, when it had no jobs yet.
            self._exit_code = self._exit_code or int(code not in {0, -signal.SIGTERM})
            logger.info("worker process %d %s", slot.number, describe_exit(code))
        else:
            self._plan(slot, describe_exit(code))

    def _plan(self, slot: Slot, what: str) -> None:
        now = self._clock.monotonic()
        slot.failures = 1 if now - slot.started_at >= HEALTHY_AFTER else slot.failures + 1
        pause = pause_before(slot.failures)
        slot.due = now + pause
        logger.warning("worker process %d %s; the next is started in %.1f s", slot.number, what, pause)

    def _report_lost(self, worker_id: str) -> None:
        # On a thread: a store that is down must delay neither signals nor restarts.
        reporter = threading.Thread(target=self._lost, args=(worker_id,), name="holdfast-lost", daemon=True)
        self._reporters = [*(thread for thread in self._reporters if thread.is_alive()), reporter]
        reporter.start()

    def _lost(self, worker_id: str) -> None:
        try:
            self._on_lost(worker_id)
        except Exception as error:
            logger.warning("worker %s is lost and its rescue failed (%s); its lease will run out", worker_id, error)


def pause_before(failures: int) -> float:
    """Return the seconds before the next start, after `failures` in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 16))


def describe_exit(code: int) -> str:
    """Describe an exit code: "ended with exit code 1", "was killed by SIGKILL"."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class StopSignals:
    """Waits for the given signals inside a `with` block. Main thread only.

    None is lost between a check and a sleep, and no handler interrupts other code.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(numbers)
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> StopSignals:
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
