"""The combining lock: nobody waits for ever, nobody's failure is another's, whoever is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.errors import OutcomeUnknown, QueueFull, StorageFull, StorageUnavailable
from holdfast.storage.group_commit import BATCH_WEIGHT, Combiner
from holdfast.storage.waiter import Waiter
from tests.patience import SOON

Work = Callable[[], Any]


class Ledger:
    """A backend of the combiner: runs each work, remembers the batches, and can be held at its commit."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def commit(self, batch: Sequence[Waiter[Work]]) -> None:
        self.entered.release()
        assert self.gate.wait(SOON)
        self.batches.append(len(batch))
        for waiter in batch:
            try:
                waiter.succeed(waiter.work())
            except Exception as error:
                waiter.fail(error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Commits stand still inside this block."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def combiner(ledger: Ledger) -> Combiner[Work]:
    return Combiner(ledger.commit)


def answer(value: Any) -> Work:
    return lambda: value


def fail(error: BaseException) -> Work:
    def work() -> None:
        raise error

    return work


def in_threads(*calls: Callable[[], Any]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive(), "a caller hangs"


def until(claim: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    deadline = time.monotonic() + SOON
    while not claim():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.0005)


def waiting(combiner: Combiner[Work]) -> int:
    return len(combiner._pending)


def test_a_lone_caller_leads_on_its_own_thread(combiner: Combiner[Work]) -> None:
    assert combiner.run(threading.get_ident) == threading.get_ident()


def test_callers_that_come_during_a_commit_share_the_next_one(combiner: Combiner[Work], ledger: Ledger) -> None:
    answers: list[int] = []
    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(*(lambda n=n: answers.append(combiner.run(answer(n))) for n in range(1, 9)))  # type: ignore[misc]
        until(lambda: waiting(combiner) == 8)
    join(threads)
    assert ledger.batches == [1, 8]
    assert sorted(answers) == list(range(1, 9))


def test_a_failing_work_fails_alone(combiner: Combiner[Work], ledger: Ledger) -> None:
    outcomes: list[object] = []

    def failing() -> None:
        with pytest.raises(ValueError, match="mine"):
            combiner.run(fail(ValueError("mine")))
        outcomes.append("failed")

    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(failing, lambda: outcomes.append(combiner.run(answer("well"))))
        until(lambda: waiting(combiner) == 2)
    join(threads)
    assert ledger.batches == [1, 2]
    assert set(outcomes) == {"failed", "well"}


def test_a_failed_commit_fails_every_caller_with_an_error_of_its_own() -> None:
    entered, gate = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def commit(batch: Sequence[Waiter[Work]]) -> None:
        entered.set()
        gate.wait(SOON)
        raise StorageFull("no space", backend="sqlite")

    combiner: Combiner[Work] = Combiner(commit)

    def call() -> None:
        with pytest.raises(StorageFull) as caught:
            combiner.run(answer(1))
        errors.append(caught.value)

    threads = in_threads(call)
    entered.wait(SOON)
    threads += in_threads(call, call)
    until(lambda: waiting(combiner) == 2)
    gate.set()
    join(threads)
    assert len({id(error) for error in errors}) == 3
    assert [getattr(error, "backend", None) for error in errors] == ["sqlite"] * 3


def test_a_batch_is_capped_by_weight_and_the_rest_follows(combiner: Combiner[Work], ledger: Ledger) -> None:
    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        for _ in range(3):
            before = waiting(combiner)
            threads += in_threads(lambda: combiner.run(answer(1), BATCH_WEIGHT // 2))
            until(lambda before=before: waiting(combiner) == before + 1)  # type: ignore[misc]
    join(threads)
    assert ledger.batches == [1, 2, 1]


def test_work_heavier_than_a_batch_runs_by_itself(combiner: Combiner[Work]) -> None:
    assert combiner.run(answer("heavy"), BATCH_WEIGHT * 10) == "heavy"


def test_what_a_commit_leaves_unsettled_goes_first_in_the_next() -> None:
    order: list[str] = []

    def one_at_a_time(batch: Sequence[Waiter[Work]]) -> None:
        batch[0].succeed(order.append(batch[0].work()))

    combiner: Combiner[Work] = Combiner(one_at_a_time)

    async def main() -> None:
        await asyncio.gather(*(combiner.arun(answer(name)) for name in "abcde"))

    asyncio.run(main())
    assert order == list("abcde")


def test_reentry_by_the_leading_thread_is_refused(combiner: Combiner[Work]) -> None:
    with pytest.raises(RuntimeError, match="in the middle of a commit"):
        combiner.run(lambda: combiner.run(answer(1)))
    assert combiner.run(answer(2)) == 2


def test_reentry_from_work_that_the_helper_leads_is_refused(combiner: Combiner[Work]) -> None:
    with pytest.raises(RuntimeError, match="in the middle of a commit"):
        asyncio.run(combiner.arun(lambda: combiner.run(answer(1))))
    assert combiner.run(answer(2)) == 2


def test_a_signal_handler_that_writes_during_a_commit_is_refused_and_hangs_nobody(combiner: Combiner[Work]) -> None:
    refused: list[BaseException] = []

    def handler(*_: object) -> None:
        try:
            combiner.run(answer(1))
        except RuntimeError as error:
            refused.append(error)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert combiner.run(lambda: signal.raise_signal(signal.SIGUSR1)) is None
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 1


def test_tasks_of_several_loops_and_threads_share_commits(combiner: Combiner[Work], ledger: Ledger) -> None:
    answers: list[int] = []

    def loop(first: int) -> None:
        async def main() -> None:
            answers.extend(await asyncio.gather(*(combiner.arun(answer(first + n)) for n in range(50))))

        asyncio.run(main())

    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(-1)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(lambda: loop(0), lambda: loop(100), lambda: answers.append(combiner.run(answer(999))))
        until(lambda: waiting(combiner) == 101)
    join(threads)
    assert ledger.batches == [1, 101]
    assert sorted(answers) == [*range(50), *range(100, 150), 999]


def test_each_loop_is_called_once_for_a_batch(combiner: Combiner[Work], ledger: Ledger) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        calls: list[object] = []
        really = loop.call_soon_threadsafe

        def counting(callback: Callable[..., object], *args: Any, **kwargs: Any) -> asyncio.Handle:
            calls.append(callback)
            return really(callback, *args, **kwargs)

        loop.call_soon_threadsafe = counting  # type: ignore[method-assign,assignment]
        await combiner.arun(answer(0))
        calls.clear()
        with ledger.held():
            tasks = [asyncio.ensure_future(combiner.arun(answer(n))) for n in range(20)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return len(calls)

    assert asyncio.run(main()) <= len(ledger.batches) - 1


def test_a_blocking_call_on_the_event_loops_thread_never_deadlocks_with_a_batch_led_by_that_loop(
    combiner: Combiner[Work],
) -> None:
    async def main() -> None:
        for n in range(300):
            tasks = [asyncio.ensure_future(combiner.arun(answer(m))) for m in range(5)]
            await asyncio.sleep(0)
            assert combiner.run(answer(n)) == n
            assert await asyncio.gather(*tasks) == list(range(5))

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_a_cancelled_caller_leaves_the_others_and_may_have_committed(combiner: Combiner[Work], ledger: Ledger) -> None:
    done: list[str] = []

    async def main() -> None:
        with ledger.held():
            taken = asyncio.ensure_future(combiner.arun(lambda: done.append("taken")))
            await asyncio.to_thread(ledger.entered.acquire, timeout=SOON)
            queued = asyncio.ensure_future(combiner.arun(lambda: done.append("queued")))
            other = asyncio.ensure_future(combiner.arun(lambda: done.append("other")))
            await asyncio.sleep(0)
            taken.cancel()
            queued.cancel()
            await asyncio.wait((taken, queued))
        await other

    asyncio.run(main())
    assert done == ["taken", "other"]


def test_a_loop_that_was_closed_while_it_waited_harms_nobody(combiner: Combiner[Work], ledger: Ledger) -> None:
    loop = asyncio.new_event_loop()
    with ledger.held():
        task = loop.create_task(combiner.arun(answer(1)))
        loop.run_until_complete(asyncio.sleep(0))
        ledger.entered.acquire(timeout=SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()
    assert combiner.run(answer(2)) == 2


def test_an_idle_combiner_adds_no_latency(combiner: Combiner[Work]) -> None:
    def took() -> float:
        start = time.perf_counter()
        combiner.run(answer(1))
        return time.perf_counter() - start

    assert min(took() for _ in range(50)) < 0.001


def test_a_full_queue_is_refused_after_a_second_at_most(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.group_commit.FULL_AFTER", 0.02)
    combiner: Combiner[Work] = Combiner(ledger.commit, room=2)
    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(lambda: combiner.run(answer(1)), lambda: combiner.run(answer(2)))
        until(lambda: waiting(combiner) == 2)
        with pytest.raises(QueueFull, match="2 writes wait"):
            combiner.run(answer(3))
        with pytest.raises(QueueFull):
            asyncio.run(combiner.arun(answer(3)))
    join(threads)
    assert combiner.run(answer(4)) == 4


def test_closing_refuses_what_waits_and_what_comes(combiner: Combiner[Work], ledger: Ledger) -> None:
    refused: list[BaseException] = []

    def call() -> None:
        with pytest.raises(StorageUnavailable) as caught:
            combiner.run(answer(1))
        refused.append(caught.value)

    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(call)
        until(lambda: waiting(combiner) == 1)
        threads += in_threads(combiner.close)
        until(lambda: combiner._closed)
    join(threads)
    call()
    assert len(refused) == 2
    with pytest.raises(StorageUnavailable):
        asyncio.run(combiner.arun(answer(1)))


class Interrupted(BaseException):
    """Ctrl-C, for threads other than the main one."""


def test_a_closed_combiner_refuses_tasks_that_come_later(combiner: Combiner[Work]) -> None:
    async def main() -> None:
        assert await combiner.arun(answer(1)) == 1
        combiner.close()
        for _ in range(2):
            with pytest.raises(StorageUnavailable):
                await asyncio.wait_for(combiner.arun(answer(2)), SOON)

    asyncio.run(main())


def test_a_leader_that_is_interrupted_fails_its_batch_and_hands_over(combiner: Combiner[Work], ledger: Ledger) -> None:
    outcomes: list[object] = []

    def neighbour() -> None:
        with pytest.raises(OutcomeUnknown):
            combiner.run(answer(1))
        outcomes.append("told")

    def leader() -> None:
        with pytest.raises(Interrupted):
            combiner.run(fail(Interrupted()))
        outcomes.append("interrupted")

    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)))
        ledger.entered.acquire(timeout=SOON)
        threads += in_threads(leader)
        until(lambda: waiting(combiner) == 1)
        threads += in_threads(neighbour)
        until(lambda: waiting(combiner) == 2)
    join(threads)
    assert sorted(map(str, outcomes)) == ["interrupted", "told"]
    assert combiner.run(answer(2)) == 2


def test_an_operation_that_ends_the_helpers_commit_leaves_the_helper_alive(combiner: Combiner[Work]) -> None:
    async def main() -> None:
        with pytest.raises(OutcomeUnknown):
            await combiner.arun(fail(Interrupted()))
        assert await combiner.arun(answer(1)) == 1

    asyncio.run(main())


def test_a_promoted_waiter_that_is_interrupted_withdraws_and_passes_leadership_on(
    combiner: Combiner[Work], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.group_commit._RECHECK", 3600.0)  # so that only the hand-over can help
    done: list[str] = []
    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        with ledger.held():
            threads = in_threads(lambda: combiner.run(answer(0)))
            ledger.entered.acquire(timeout=SOON)
            threads += in_threads(lambda: _behind_main(combiner, done))
            with pytest.raises(Interrupted):
                combiner.run(lambda: done.append("main"))
        join(threads)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done == ["behind"]


def _interrupt(*_: object) -> None:
    raise Interrupted


def _behind_main(combiner: Combiner[Work], done: list[str]) -> None:
    until(lambda: waiting(combiner) == 1)
    threads = in_threads(lambda: combiner.run(lambda: done.append("behind")))
    until(lambda: waiting(combiner) == 2)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    join(threads)


def test_ctrl_c_while_leading_a_commit_hangs_nobody_in_200_trials() -> None:
    ledger = Ledger()
    combiner: Combiner[Work] = Combiner(ledger.commit)
    stop = threading.Event()
    served = [0, 0, 0]

    def busy(slot: int) -> None:
        while not stop.is_set():
            served[slot] += 1 if _tolerant(lambda: combiner.run(lambda: time.sleep(0.00005))) else 0

    def awaiting() -> None:
        async def main() -> None:
            while not stop.is_set():
                try:
                    await combiner.arun(lambda: time.sleep(0.00005))
                except OutcomeUnknown:
                    continue
                served[2] += 1

        asyncio.run(main())

    threads = in_threads(lambda: busy(0), lambda: busy(1), awaiting)
    try:
        for trial in range(200):
            _trial(combiner, trial)
            mark = list(served)
            until(lambda mark=mark: all(now > then for now, then in zip(served, mark, strict=True)))  # type: ignore[misc]
    finally:
        stop.set()
        join(threads)


def _trial(combiner: Combiner[Work], trial: int) -> None:
    """Write on the main thread until Ctrl-C comes, at a moment that differs from trial to trial."""
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait(SOON)
        time.sleep((trial % 50) * 0.00002)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    killers = in_threads(interrupt)
    with pytest.raises(KeyboardInterrupt):
        _write_for_ever(combiner, begun)
    join(killers)


def _write_for_ever(combiner: Combiner[Work], begun: threading.Event) -> None:
    begun.set()
    while True:
        _tolerant(lambda: combiner.run(lambda: time.sleep(0.00002)))


def _tolerant(call: Callable[[], object]) -> bool:
    try:
        call()
    except OutcomeUnknown:
        return False
    return True


def test_a_flight_left_by_a_leader_interrupted_twice_is_delivered_by_the_next(
    combiner: Combiner[Work], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = combiner._deliver

    def interrupted_again() -> None:
        monkeypatch.setattr(combiner, "_deliver", deliver)
        raise Interrupted

    def commit_and_break(batch: Sequence[Waiter[Work]]) -> None:
        monkeypatch.setattr(combiner, "_deliver", interrupted_again)
        monkeypatch.setattr(combiner, "_commit", ledger.commit)
        raise Interrupted

    async def main() -> None:
        task = asyncio.ensure_future(combiner.arun(answer("awaiting")))
        with pytest.raises(OutcomeUnknown):
            await task

    with combiner.exclusive():
        monkeypatch.setattr(combiner, "_commit", commit_and_break)
        threads = in_threads(lambda: asyncio.run(main()))
        until(lambda: waiting(combiner) == 1)
    until(lambda: combiner._commit == ledger.commit and combiner.idle)
    assert combiner.run(answer(1)) == 1
    join(threads)


def test_a_forked_child_starts_with_new_locks_and_an_empty_queue(combiner: Combiner[Work], ledger: Ledger) -> None:
    asyncio.run(combiner.arun(answer(0)))
    ledger.entered.acquire(timeout=SOON)
    with ledger.held():
        threads = in_threads(lambda: combiner.run(answer(0)), lambda: combiner.run(answer(1)))
        ledger.entered.acquire(timeout=SOON)
        child = os.fork()
        if child == 0:
            ledger.gate = threading.Event()
            ledger.gate.set()
            signal.alarm(10)
            fine = combiner.run(answer(7)) == 7 and asyncio.run(combiner.arun(answer(8))) == 8
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    join(threads)
