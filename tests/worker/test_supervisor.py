from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import App
from holdfast.clock import ManualClock
from holdfast.runtime.running import run_workers
from holdfast.worker.processes.parent import (
    SUPERVISOR_VARIABLE,
    WORKER_ID_VARIABLE,
    is_orphan,
    take_worker_id,
    tie_to_supervisor,
)
from holdfast.worker.processes.supervisor import ONE_STOP, Slot, Supervisor, describe_exit, pause_before
from holdfast.worker.settings import WorkerSettings
from tests.patience import SOON

from .programs import ENV, key_of, python, wait_gone


class Lost:
    """Notes the identities that were lost."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._told = threading.Semaphore(0)

    def __call__(self, worker_id: str) -> None:
        self.ids.append(worker_id)
        self._told.release()

    def wait(self) -> None:
        assert self._told.acquire(timeout=SOON)


@contextmanager
def supervising(code: str, count: int = 1, **options: float) -> Iterator[tuple[Supervisor, ManualClock, Lost]]:
    clock, lost = ManualClock(), Lost()
    supervisor = Supervisor(python(code), count, on_lost=lost, env=ENV, clock=clock, **options)
    try:
        yield supervisor, clock, lost
    finally:
        for slot in supervisor.slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.wait()


def ended(slot: Slot) -> None:
    """Returns when the slot's process has ended."""
    assert slot.process is not None
    slot.process.wait(SOON)


def test_the_pause_doubles_from_half_a_second_to_half_a_minute() -> None:
    assert [pause_before(n) for n in (1, 2, 3, 6, 7, 8, 10_000)] == [0.5, 1.0, 2.0, 16.0, 30.0, 30.0, 30.0]


def test_a_fallen_worker_is_restarted_after_its_pause_under_a_new_identity() -> None:
    with supervising("raise SystemExit(3)") as (supervisor, clock, lost):
        supervisor.step()
        slot = supervisor.slots[0]
        first = slot.worker_id
        ended(slot)
        assert supervisor.step() == 0.5
        lost.wait()
        assert lost.ids == [first]
        assert slot.process is None
        clock.advance(0.4)
        supervisor.step()
        assert slot.process is None
        clock.advance(0.1)
        supervisor.step()
        assert slot.process is not None
        assert slot.worker_id != first
        ended(slot)
        assert supervisor.step() == 1.0


def test_a_minute_of_health_resets_the_pause() -> None:
    with supervising("raise SystemExit(3)") as (supervisor, clock, _):
        slot = supervisor.slots[0]
        slot.failures = 5
        supervisor.step()
        ended(slot)
        clock.advance(60)
        assert supervisor.step() == 0.5


def test_a_worker_that_ends_well_is_restarted_and_not_lost() -> None:
    with supervising("pass") as (supervisor, _, lost):
        supervisor.step()
        ended(supervisor.slots[0])
        assert supervisor.step() == 0.5
        assert lost.ids == []


def test_an_error_of_the_rescue_does_not_stop_the_supervisor(caplog: pytest.LogCaptureFixture) -> None:
    def broken(worker_id: str) -> None:
        raise OSError("the store is down")

    supervisor = Supervisor(python("raise SystemExit(1)"), 1, on_lost=broken, env=ENV, clock=ManualClock())
    supervisor.step()
    ended(supervisor.slots[0])
    supervisor.step()
    for teller in supervisor._reporters:
        teller.join(SOON)
    assert any("the store is down" in message for message in caplog.messages)


def test_a_command_that_cannot_be_started_is_tried_again_later() -> None:
    supervisor = Supervisor(["/no/such/program"], 2, on_lost=Lost(), env=ENV, clock=ManualClock())
    assert supervisor.step() == 0.5
    assert supervisor.step() == 0.5
    assert [slot.failures for slot in supervisor.slots] == [1, 1]


def test_workers_past_the_time_to_stop_are_killed() -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    with supervising(code, stop_after=5.0) as (supervisor, clock, _):
        read, write = os.pipe()
        saved = os.dup(1)
        os.dup2(write, 1)
        try:
            supervisor.step()
        finally:
            os.dup2(saved, 1)
        assert os.read(read, 2) == b"up"
        supervisor.stop()
        assert supervisor.step() == 5.0
        clock.advance(5.0)
        supervisor.step()
        ended(supervisor.slots[0])
        assert supervisor.step() is None
        assert supervisor._exit_code == 1
        for descriptor in (read, write, saved):
            os.close(descriptor)


def test_workers_get_all_the_time_to_stop_that_their_settings_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Supervisor):
        def run(self) -> int:
            assert self._stop_after == 100 + 200 + 60 + 30
            return 0

    monkeypatch.setattr("holdfast.runtime.running.Supervisor", Stopped)
    settings = WorkerSettings(grace=100, cancel_grace=200, lease=60)
    assert run_workers(App(":memory:"), ["x"], 2, settings) == 0


def test_no_process_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Supervisor(["x"], 0, on_lost=Lost())


def test_exits_are_told_in_words() -> None:
    assert describe_exit(2) == "ended with exit code 2"
    assert describe_exit(-9) == "was killed by SIGKILL"
    assert describe_exit(-64) == "was killed by SIGRTMAX"
    assert describe_exit(-99) == "was killed by signal 99"


SUPERVISE = """
import logging, os, sys
from holdfast.worker.processes import supervisor
from holdfast.worker.processes.supervisor import Supervisor
logging.basicConfig(level=logging.INFO)
supervisor.FIRST_PAUSE = 0.01
lost = lambda worker_id: os.write(1, f"lost {worker_id}\\n".encode())
raise SystemExit(Supervisor([sys.executable, "-c", sys.argv[1]], int(sys.argv[2]), on_lost=lost).run())
"""

WORKER = """
import os, signal, sys
from holdfast.worker.processes.parent import take_worker_id, tie_to_supervisor
def stopping(*_):
    os.write(1, b"stopping\\n")
def stop(*_):
    stopping()
    sys.exit(0)
signal.signal(signal.SIGTERM, {handler})
tie_to_supervisor()
os.write(1, f"up {{os.getpid()}} {{take_worker_id()}}\\n".encode())
while True:
    signal.pause()
"""
GRACEFUL = WORKER.format(handler="stop")
STUBBORN = WORKER.format(handler="stopping")


class Running:
    """A real supervisor with real workers, heard through its standard output: one write for each line."""

    def __init__(self, worker: str, count: int) -> None:
        self.process = subprocess.Popen(
            [*python(SUPERVISE), worker, str(count)], env=ENV, stdout=subprocess.PIPE, text=True
        )
        self.workers: dict[int, str] = {}

    def next_message(self, word: str) -> tuple[int, str]:
        """The next line, which must be of that kind: the pid and the identity in it."""
        assert self.process.stdout is not None
        parts = self.process.stdout.readline().split()
        assert parts[:1] == [word]
        return (int(parts[1]), parts[2]) if word == "up" else (0, "".join(parts[1:]))


@contextmanager
def running(worker: str, count: int) -> Iterator[Running]:
    started = Running(worker, count)
    with started.process:
        try:
            started.workers = dict(started.next_message("up") for _ in range(count))
            yield started
        finally:
            started.process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_workers_stop_well(number: signal.Signals) -> None:
    with running(GRACEFUL, 2) as started:
        assert len(set(started.workers.values())) == 2
        started.process.send_signal(number)
        started.next_message("stopping")
        started.next_message("stopping")
        assert started.process.wait(SOON) == 0


def test_the_second_signal_kills_the_workers_and_reports_them_lost() -> None:
    with running(STUBBORN, 1) as started:
        started.process.send_signal(signal.SIGTERM)
        started.next_message("stopping")
        # The one wait here: two signals within this time are one stop that arrived twice.
        time.sleep(ONE_STOP + 0.1)
        started.process.send_signal(signal.SIGTERM)
        _, lost = started.next_message("lost")
        assert [lost] == list(started.workers.values())
        assert started.process.wait(SOON) == 1


def test_a_stop_that_arrives_twice_at_once_is_one_stop() -> None:
    with running(GRACEFUL, 1) as started:
        started.process.send_signal(signal.SIGINT)
        started.process.send_signal(signal.SIGTERM)
        started.next_message("stopping")
        assert started.process.wait(SOON) == 0


def test_a_killed_worker_is_reported_lost_and_replaced_at_once() -> None:
    with running(GRACEFUL, 1) as started:
        [(pid, identity)] = started.workers.items()
        os.kill(pid, signal.SIGKILL)
        assert started.next_message("lost") == (0, identity)
        new_pid, new_identity = started.next_message("up")
        assert (new_pid != pid, new_identity != identity) == (True, True)
        started.process.terminate()
        assert started.process.wait(SOON) == 0


def test_workers_stop_when_their_supervisor_is_killed_outright() -> None:
    with running(GRACEFUL, 2) as started:
        keys = [key_of(pid) for pid in started.workers]
        started.process.kill()
        started.process.wait()
        for key in keys:
            wait_gone(key)


def test_a_worker_that_finds_its_supervisor_gone_already_stops_at_once() -> None:
    code = "from holdfast.worker.processes.parent import tie_to_supervisor; tie_to_supervisor(); print('lives')"
    env = {**ENV, SUPERVISOR_VARIABLE: "1" if os.getpid() != 1 else "2"}
    assert subprocess.run(python(code), env=env, check=False, timeout=SOON).returncode == -signal.SIGTERM


def test_a_worker_without_a_supervisor_is_its_own_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUPERVISOR_VARIABLE, raising=False)
    monkeypatch.delenv(WORKER_ID_VARIABLE, raising=False)
    assert tie_to_supervisor() is None
    assert take_worker_id() is None
    assert not is_orphan(None)
    assert is_orphan(os.getpid())
    assert not is_orphan(os.getppid())


def test_an_identity_is_given_once_and_not_to_the_programs_that_a_job_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER_ID_VARIABLE, "w1")
    assert take_worker_id() == "w1"
    assert WORKER_ID_VARIABLE not in os.environ
