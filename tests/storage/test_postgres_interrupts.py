"""Ctrl-C, cancellation and fork at any moment leave the others working."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.errors import OutcomeUnknown
from holdfast.storage.port import ListOp, Op, Tx
from holdfast.storage.postgres import PostgresStore
from holdfast.storage.postgres.wait_queue import WaitQueue
from tests.patience import SOON
from tests.storage import kit


def test_an_interrupted_leader_takes_nobody_with_it(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, depth=1, notify=False)
    leading, boarded = threading.Event(), threading.Event()
    outcomes: dict[str, object] = {}

    async def interrupted(tx: Tx, items: object) -> list[bool]:
        assert isinstance(items, list)
        leading.set()
        boarded.wait(SOON)
        raise KeyboardInterrupt

    def lead() -> None:
        try:
            store.write_list(ListOp(interrupted, ["x"]))
        except KeyboardInterrupt as error:
            outcomes["leader"] = error

    def follow() -> None:
        outcomes["follower"] = store.write_list(kit.insert_list(["a"]))

    threads = [threading.Thread(target=lead), threading.Thread(target=follow)]
    threads[0].start()
    assert leading.wait(SOON)
    threads[1].start()
    while not any(ticket.work.items == ["a"] for ticket in store._merger._queue):
        time.sleep(0.001)
    boarded.set()
    for thread in threads:
        thread.join(SOON)
    assert outcomes["follower"] == [True]
    assert isinstance(outcomes["leader"], KeyboardInterrupt)
    store.close()


def test_those_in_an_interrupted_batch_learn_that_its_outcome_is_unknown(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, depth=1, notify=False)
    first, gathered = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    async def slow_then_interrupted(tx: Tx, items: object) -> list[bool]:
        assert isinstance(items, list)
        if items == ["first"]:
            first.set()
            gathered.wait(SOON)
            return await kit.insert_each(tx, items)
        raise KeyboardInterrupt

    def call(item: str) -> None:
        try:
            store.write_list(ListOp(slow_then_interrupted, [item]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(item,)) for item in ("first", "b", "c")]
    threads[0].start()
    assert first.wait(SOON)
    for thread in threads[1:]:
        thread.start()
    while len(list(store._merger._queue)) < 2:
        time.sleep(0.001)
    gathered.set()
    for thread in threads:
        thread.join(SOON)
    assert sorted(type(error).__name__ for error in errors) == ["KeyboardInterrupt", "OutcomeUnknown"]
    assert any(isinstance(error, OutcomeUnknown) for error in errors)
    assert store.write_list(kit.insert_list(["d"])) == [True]
    store.close()


class InterruptedOnce(WaitQueue[Any]):
    """A line at which whoever looks for an heir is interrupted, the first time."""

    interrupted = False

    def __iter__(self) -> Iterator[Any]:
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        return super().__iter__()


def test_who_is_interrupted_while_handing_the_lead_over_does_not_keep_it(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, depth=1, notify=False)
    store._merger._queue = InterruptedOnce()
    with pytest.raises(KeyboardInterrupt):
        store.write_list(kit.insert_list(["a"]))
    answers: list[list[bool]] = []
    other = threading.Thread(target=lambda: answers.append(store.write_list(kit.insert_list(["b"]))), daemon=True)
    other.start()
    other.join(SOON)
    assert answers == [[True]]
    store.close()


def test_who_was_lost_from_the_line_comes_back_to_it(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, depth=1, notify=False)
    merger, leader = store._merger, object()
    merger._leaders.add(leader)  # type: ignore[arg-type]
    answers: list[list[bool]] = []
    other = threading.Thread(target=lambda: answers.append(store.write_list(kit.insert_list(["b"]))), daemon=True)
    other.start()
    while not len(merger._queue):
        time.sleep(0.001)
    # As if a leader had been interrupted right after it took everything.
    with merger._mutex:
        merger._queue = WaitQueue()
        merger._leaders.clear()
    other.join(SOON)
    assert answers == [[True]]
    store.close()


def test_who_leads_and_was_answered_by_another_leader_asks_for_no_more(noted_dsn: str) -> None:
    """Interrupted after it had taken one from the line, a leader answers for it before that one knows of it."""
    store = PostgresStore(noted_dsn, depth=1, notify=False)

    class Settling(WaitQueue[Any]):
        def take_into(self, batch: list[Any]) -> None:
            (ticket,) = self
            self.remove(ticket)
            ticket.settle([], OutcomeUnknown("interrupted"))

    store._merger._queue = Settling()
    with pytest.raises(OutcomeUnknown):
        store.write_list(kit.insert_list(["a"]))
    store.close()


# A psycopg.connect() that is interrupted midway leaves its connection to the garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_stops_no_other_writer(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, depth=1, notify=False)
    store.write_list(kit.insert_list(["start"]))
    stop = threading.Event()
    written = [0] * 4

    def keep_writing(thread: int) -> None:
        while not stop.is_set():
            store.write_list(kit.insert_list([f"{thread}-{written[thread]}"]))
            written[thread] += 1

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    threads = [threading.Thread(target=keep_writing, args=(n,), daemon=True) for n in range(4)]
    previous = signal.signal(signal.SIGALRM, interrupt)
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        for thread in threads:
            thread.start()
        for trial in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + trial * 0.00005)
                while True:
                    store.write_list(kit.insert_list(["mine"]))
            except (KeyboardInterrupt, OutcomeUnknown):
                signal.setitimer(signal.ITIMER_REAL, 0)
        assert store.write_list(kit.insert_list(["last"])) == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        stop.set()
        for thread in threads:
            thread.join(SOON)
        threading.excepthook = hook
    assert not any(thread.is_alive() for thread in threads)
    store.close()
    gc.collect()


def test_a_fork_in_the_middle_of_everything_leaves_both_processes_working(noted_dsn: str) -> None:
    program = f"""
        import asyncio, os, threading
        from holdfast.storage.postgres import PostgresStore
        from tests.storage import kit

        store = PostgresStore({noted_dsn!r})
        ear = store.wakeups.listen(["queue:a"])
        assert ear.wait({SOON})
        stop = threading.Event()

        def keep_writing():
            n = 0
            while not stop.is_set():
                store.write_list(kit.insert_list([f"{{os.getpid()}}-{{n}}"]))
                n += 1

        threads = [threading.Thread(target=keep_writing) for _ in range(3)]
        for thread in threads:
            thread.start()
        asyncio.run(store.awrite(kit.insert("parent")))
        children = []
        for n in range(5):
            if (child := os.fork()) == 0:
                try:
                    store.write(kit.insert(f"child {{n}}"))
                    asyncio.run(store.awrite_list(kit.insert_list([f"awaited {{n}}"])))
                    assert store.wakeups.listen(["queue:a"]).wait({SOON})
                    store.close()
                    os._exit(0)
                except BaseException as error:
                    print(repr(error))
                    os._exit(1)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set()
        for thread in threads:
            thread.join()
        assert store.write(kit.insert("parent still"))
        store.close()
        print(codes)
    """
    assert kit.run_python(program).splitlines()[-1] == "[0, 0, 0, 0, 0]"


def test_an_operation_cancelled_while_it_waits_for_a_connection_passes_its_turn_on(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, pool_size=1, notify=False)

    async def main() -> list[str]:
        release, holding = threading.Event(), threading.Event()

        async def hold(tx: Tx) -> None:
            holding.set()
            release.wait()

        holder = asyncio.create_task(store.awrite(Op(hold)))
        await asyncio.to_thread(holding.wait)
        impatient = asyncio.create_task(store.awrite(kit.insert("a")))
        patient = asyncio.create_task(store.awrite(kit.insert("b")))
        await asyncio.sleep(0)
        release.set()
        await holder
        impatient.cancel()
        await asyncio.gather(impatient, patient, return_exceptions=True)
        return await store.aread(kit.names())

    assert "b" in asyncio.run(main())
    store.close()
