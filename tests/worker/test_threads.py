from __future__ import annotations

import asyncio
import contextvars
import subprocess
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.tasks.middleware import HandlerExit
from holdfast.worker.running import threads
from holdfast.worker.running.threads import ThreadPool
from tests.patience import SOON

from .programs import ENV, python

job: contextvars.ContextVar[str] = contextvars.ContextVar("job", default="none")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, SOON))


class Stuck:
    """A call that begins, and stays until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.leave = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.leave.wait(SOON)
        return "late"

    async def has_begun(self) -> None:
        await asyncio.to_thread(self.begun.wait, SOON)


def test_a_call_runs_on_a_thread_and_answers_on_the_loop() -> None:
    async def main() -> None:
        pool = ThreadPool(2)
        assert await pool.submit(pow, 2, 5).future == 32
        assert await pool.submit(threading.get_ident).future != threading.get_ident()
        pool.close()

    run(main())


def test_an_error_reaches_the_caller_with_its_traceback() -> None:
    async def main() -> None:
        pool = ThreadPool(1)
        with pytest.raises(ZeroDivisionError) as caught:
            await pool.submit(divmod, 1, 0).future
        assert caught.value.__traceback__ is not None
        pool.close()

    run(main())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError])
def test_what_would_end_the_loop_or_mimic_a_cancel_arrives_as_an_error(kind: type[BaseException]) -> None:
    def leave() -> None:
        raise kind("bye")

    async def main() -> None:
        pool = ThreadPool(1)
        with pytest.raises(HandlerExit, match=kind.__name__) as caught:
            await pool.submit(leave).future
        assert type(caught.value.__cause__) is kind
        assert await pool.submit(pow, 3, 2).future == 9
        pool.close()

    run(main())


def test_other_control_flow_errors_arrive_unchanged() -> None:
    class Suspended(BaseException):
        pass

    def suspend() -> None:
        raise Suspended

    async def main() -> None:
        pool = ThreadPool(1)
        with pytest.raises(Suspended):
            await pool.submit(suspend).future
        pool.close()

    run(main())


def test_the_submitters_context_is_copied_and_not_shared() -> None:
    def look() -> str:
        seen = job.get()
        job.set("changed")
        return seen

    async def main() -> None:
        pool = ThreadPool(1)
        job.set("j1")
        ticket = pool.submit(look)
        job.set("j2")
        assert await ticket.future == "j1"
        assert await pool.submit(job.get).future == "j2"
        pool.close()

    run(main())


def test_threads_are_made_only_when_needed_and_up_to_the_size() -> None:
    async def main() -> None:
        pool = ThreadPool(3)
        assert pool.threads == 0
        for _ in range(5):
            await pool.submit(int).future
        assert pool.threads == 1
        await asyncio.gather(*(pool.submit(int).future for _ in range(50)))
        assert pool.threads == 3
        pool.close()

    run(main())


def test_results_of_many_calls_share_few_wake_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pool = ThreadPool(1)
        wakes = 0
        real = loop.call_soon_threadsafe

        def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        finished = threading.Event()
        tickets = [pool.submit(int) for _ in range(500)]
        last = pool.submit(finished.set)
        # The loop's thread is held here on purpose: meanwhile every result must join the first wake-up.
        assert finished.wait(SOON)
        await last.future
        assert all(ticket.future.done() for ticket in tickets)
        assert wakes <= 2
        pool.close()

    run(main())


def test_an_abandoned_running_call_is_a_zombie_whose_thread_is_replaced() -> None:
    async def main() -> None:
        pool = ThreadPool(1, max_zombies=1)
        stuck = Stuck()
        ticket = pool.submit(stuck)
        await stuck.has_begun()
        assert pool.abandon(ticket) is True
        assert ticket.future.cancelled()
        assert (pool.zombies, pool.exhausted) == (1, False)
        assert await pool.submit(pow, 2, 2).future == 4
        stuck.leave.set()
        pool.close()

    run(main())


def test_a_zombie_that_returns_is_forgiven_and_leaves_no_spare_thread() -> None:
    async def main() -> None:
        pool = ThreadPool(1, max_zombies=1)
        stuck = Stuck()
        ticket = pool.submit(stuck)
        await stuck.has_begun()
        pool.abandon(ticket)
        await pool.submit(int).future
        stuck.leave.set()
        while pool.zombies:
            await asyncio.to_thread(int)
        assert pool.threads == 1
        assert pool.abandon(ticket) is False
        assert await pool.submit(pow, 2, 3).future == 8
        pool.close()

    run(main())


def test_more_zombies_than_allowed_exhaust_the_pool_and_are_not_replaced() -> None:
    async def main() -> None:
        pool = ThreadPool(1, max_zombies=0)
        stuck = Stuck()
        ticket = pool.submit(stuck)
        await stuck.has_begun()
        pool.abandon(ticket)
        assert pool.exhausted
        waiting = pool.submit(pow, 2, 4)
        assert pool.threads == 0
        assert not waiting.started
        stuck.leave.set()
        assert await waiting.future == 16, "the thread serves again when its zombie returns"
        assert not pool.exhausted
        pool.close()

    run(main())


def test_a_call_that_waits_behind_a_zombie_gets_the_replacement() -> None:
    async def main() -> None:
        pool = ThreadPool(1, max_zombies=1)
        stuck = Stuck()
        ticket = pool.submit(stuck)
        behind = pool.submit(pow, 5, 2)
        await stuck.has_begun()
        pool.abandon(ticket)
        assert await behind.future == 25
        stuck.leave.set()
        pool.close()

    run(main())


def test_abandoning_a_call_that_has_not_begun_skips_it_without_a_zombie() -> None:
    async def main() -> None:
        pool = ThreadPool(1)
        stuck = Stuck()
        first = pool.submit(stuck)
        await stuck.has_begun()
        ran: list[int] = []
        second = pool.submit(ran.append, 1)
        assert pool.abandon(second) is False
        assert pool.zombies == 0
        stuck.leave.set()
        assert await first.future == "late"
        await pool.submit(int).future
        assert ran == []
        pool.close()

    run(main())


def test_abandoning_a_finished_call_changes_nothing() -> None:
    async def main() -> None:
        pool = ThreadPool(1)
        ticket = pool.submit(pow, 2, 2)
        await ticket.future
        assert pool.abandon(ticket) is False
        stuck = Stuck()
        cancelled = pool.submit(stuck)
        await stuck.has_begun()
        cancelled.future.cancel()
        stuck.leave.set()
        await pool.submit(int).future
        assert pool.abandon(cancelled) is False
        assert pool.zombies == 0
        pool.close()

    run(main())


def test_closing_cancels_what_waits_ends_the_threads_and_refuses_more() -> None:
    async def main() -> None:
        pool = ThreadPool(1, name="closing")
        stuck = Stuck()
        running = pool.submit(stuck)
        await stuck.has_begun()
        waiting = pool.submit(int)
        pool.close()
        assert waiting.future.cancelled()
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(int)
        [thread] = [thread for thread in threading.enumerate() if thread.name.startswith("closing")]
        stuck.leave.set()
        assert await running.future == "late"
        await asyncio.to_thread(thread.join, SOON)
        assert not thread.is_alive()

    run(main())


def test_a_hanging_call_does_not_keep_the_interpreter_from_ending() -> None:
    program = """
import asyncio, threading
from holdfast.worker.running.threads import ThreadPool
async def main():
    pool = ThreadPool(1)
    begun = threading.Event()
    ticket = pool.submit(lambda: (begun.set(), threading.Event().wait()))
    begun.wait()
    pool.abandon(ticket)
asyncio.run(main())
"""
    assert subprocess.run(python(program), env=ENV, timeout=SOON, check=False).returncode == 0


def test_a_result_that_comes_after_the_loop_has_closed_ends_its_thread() -> None:
    stuck = Stuck()

    async def main() -> None:
        pool = ThreadPool(1, name="late")
        pool.submit(stuck)
        await stuck.has_begun()

    run(main())
    [thread] = [thread for thread in threading.enumerate() if thread.name.startswith("late")]
    stuck.leave.set()
    thread.join(SOON)
    assert not thread.is_alive()


# -- a machine that is out of threads


class Shortage:
    """While it lasts, no thread of a pool can be started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lasts = True
        self.refused = 0
        self._start = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", lambda thread: self._start_or_refuse(thread))

    def _start_or_refuse(self, thread: threading.Thread) -> None:
        if self.lasts and thread.name.startswith("short"):
            self.refused += 1
            raise RuntimeError("can't start new thread")
        self._start(thread)


def test_a_call_for_which_no_thread_can_be_had_is_refused_and_the_next_ones_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shortage = Shortage(monkeypatch)

    async def main() -> None:
        pool = ThreadPool(2, name="short")
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                pool.submit(int)
        assert pool.threads == 0
        shortage.lasts = False
        assert await pool.submit(pow, 2, 5).future == 32
        pool.close()

    run(main())


def test_where_a_thread_lives_a_call_waits_for_it_instead_of_being_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shortage = Shortage(monkeypatch)

    async def main() -> None:
        shortage.lasts = False
        pool = ThreadPool(2, name="short")
        stuck = Stuck()
        first = pool.submit(stuck)
        await stuck.has_begun()
        shortage.lasts = True
        waits = pool.submit(pow, 2, 3)
        assert (pool.threads, waits.started) == (1, False)
        stuck.leave.set()
        assert (await first.future, await waits.future) == ("late", 8)
        pool.close()

    run(main())


def test_a_call_that_waits_for_a_thread_gets_one_when_the_shortage_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_PAUSE_WITHOUT_THREADS", 0.01)
    shortage = Shortage(monkeypatch)

    async def main() -> None:
        shortage.lasts = False
        pool = ThreadPool(2, name="short")
        stuck = Stuck()
        pool.submit(stuck)
        await stuck.has_begun()
        shortage.lasts = True
        waits = pool.submit(pow, 2, 3)
        shortage.lasts = False
        assert await waits.future == 8
        stuck.leave.set()
        pool.close()

    run(main())


def test_giving_a_call_up_during_a_shortage_loses_nothing_but_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_PAUSE_WITHOUT_THREADS", 0.01)
    shortage = Shortage(monkeypatch)

    async def main() -> None:
        shortage.lasts = False
        pool = ThreadPool(1, name="short")
        stuck = Stuck()
        ticket = pool.submit(stuck)
        behind = pool.submit(pow, 5, 2)
        await stuck.has_begun()
        shortage.lasts = True
        assert pool.abandon(ticket) is True
        assert (pool.threads, pool.zombies, shortage.refused) == (0, 1, 1)
        shortage.lasts = False
        assert await behind.future == 25
        stuck.leave.set()
        pool.close()

    run(main())


def test_a_pool_without_threads_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="positive size"):
            ThreadPool(0)

    run(main())
