from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.worker.running.watchdog import Watchdog
from tests.patience import SOON

from .programs import ENV, python


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, SOON))


class Watched:
    """A watchdog on a manual clock; within one step of a test the loop does not move."""

    def __init__(self, warn_after: float = 2.0, give_up_after: float = 10.0) -> None:
        self.clock = ManualClock()
        self.deaths = 0
        self.dog = Watchdog(warn_after=warn_after, give_up_after=give_up_after, on_dead=self._died, clock=self.clock)

    def _died(self) -> None:
        self.deaths += 1

    def look_after(self, *seconds: float) -> float:
        stalled = 0.0
        for step in seconds:
            self.clock.advance(step)
            stalled = self.dog.check_once()
        return stalled


def hold_the_loop(watched: Watched, seconds: list[float]) -> None:
    """Keeps the loop's thread here while another thread looks."""
    looker = threading.Thread(target=watched.look_after, args=seconds)
    looker.start()
    looker.join()


def assert_the_watch_ends() -> None:
    for thread in threading.enumerate():
        if thread.name == "holdfast-watchdog":
            thread.join(SOON)
            assert not thread.is_alive()


def test_a_loop_that_moves_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watched = Watched()
        for _ in range(20):
            assert watched.look_after(1.0) == 0
            await asyncio.sleep(0)
        assert watched.deaths == 0

    run(main())
    assert caplog.messages == []


def test_the_code_that_holds_the_loop_is_named_once_and_its_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watched = Watched()
        hold_the_loop(watched, [1.0, 1.0, 1.0, 1.0])
        watched.clock.advance(0.5)
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        run(main())
    first, last = caplog.messages
    assert first.startswith("the event loop has not moved for 2.0 s")
    assert "hold_the_loop" in first
    assert __file__ in first
    assert last == "the event loop runs again; it was blocked for 3.5 s"


def test_each_blockage_is_told_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watched = Watched()
        for _ in range(2):
            watched.look_after(1.0, 1.0, 1.0)
            await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        run(main())
    assert len(caplog.messages) == 4


def test_a_loop_that_stays_still_for_too_long_is_given_up_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watched = Watched()
        watched.look_after(*[1.0] * 10)
        assert watched.deaths == 0
        watched.look_after(*[1.0] * 10)
        assert watched.deaths == 1

    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        run(main())
    assert [record.levelname for record in caplog.records[:2]] == ["WARNING", "CRITICAL"]
    assert "taken for dead" in caplog.messages[1]


def test_time_in_which_the_whole_process_was_stopped_is_not_held_against_the_loop() -> None:
    async def main() -> None:
        watched = Watched()
        watched.look_after(0.5)
        assert watched.look_after(3600.0) == 2.0
        assert watched.deaths == 0

    run(main())


def test_the_thread_watches_by_itself_and_ends_the_process() -> None:
    program = """
import asyncio, logging, os, threading
from holdfast.worker.running.watchdog import Watchdog
logging.basicConfig()
async def main():
    Watchdog(warn_after=0.05, give_up_after=0.2, on_dead=lambda: os._exit(70)).start()
    await asyncio.sleep(0)
    block_for_ever()
def block_for_ever():
    threading.Event().wait()
asyncio.run(main())
"""
    ended = subprocess.run(python(program), env=ENV, capture_output=True, timeout=SOON, check=False)
    assert ended.returncode == 70
    assert b"block_for_ever" in ended.stderr
    assert b"taken for dead" in ended.stderr


def test_a_stopped_watchdog_and_a_closed_loop_end_the_thread() -> None:
    async def main(stop: bool) -> None:
        dog = Watchdog(warn_after=0.004, give_up_after=100, on_dead=lambda: None)
        dog.start()
        if stop:
            dog.stop()

    for stop in (True, False):
        run(main(stop))
        assert_the_watch_ends()


def test_a_loop_that_closes_with_a_question_unanswered_is_not_taken_for_dead() -> None:
    deaths = threading.Event()
    loop = asyncio.new_event_loop()

    async def main() -> Watchdog:
        return Watchdog(warn_after=0.004, give_up_after=0.004, on_dead=deaths.set)

    dog = loop.run_until_complete(main())
    dog.check_once()
    loop.close()
    dog.start()
    assert_the_watch_ends()
    assert not deaths.is_set()


def test_limits_that_make_no_sense_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="warn_after"):
            Watchdog(warn_after=5, give_up_after=1, on_dead=lambda: None)

    run(main())
