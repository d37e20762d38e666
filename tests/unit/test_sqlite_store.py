"""Writing and reading through the SQLite store: sharing a commit, failing alone, busy, full, interrupted."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import HoldfastError, OutcomeUnknown, StorageBusy, StorageError, StorageFull, StorageUnavailable
from holdfast.storage.port import ListOp, Op, Tx
from holdfast.storage.sqlite import SqliteStore, work
from holdfast.storage.sqlite.work import Work
from holdfast.storage.sqlite.writer import BATCH_SECONDS
from holdfast.storage.statements import Statement
from holdfast.storage.waiter import BlockingWaiter
from tests.patience import SOON
from tests.unit.sqlite_kit import INSERT, SLOWLY, TEXTS, add, prepare


class ActiveLimits:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


def together(store: SqliteStore, *ops: Op[Any] | ListOp[Any, Any], clock: ActiveLimits | None = None) -> list[Any]:
    """Run operations in one batch, for which a busy machine has the time; each one's answer or error."""
    waiters = [BlockingWaiter(Work(op), 1) for op in ops]
    with pytest.MonkeyPatch.context() as patch, store._combiner.exclusive():
        patch.setattr("holdfast.storage.sqlite.writer.time", clock or ActiveLimits())
        store._session().writer.commit(waiters)
    return [waiter.error or waiter.value if waiter.settled else "left" for waiter in waiters]


def writing(store: SqliteStore) -> sqlite3.Connection:
    return store._session().writer.connection


def test_both_colours_write_and_read(store: SqliteStore) -> None:
    async def main() -> list[str]:
        await store.awrite(add("awaiting"))
        return await store.aread(TEXTS)

    assert store.write(add("blocking")) == 1
    assert asyncio.run(main()) == ["blocking", "awaiting"] == store.read(TEXTS)


def test_lists_are_answered_item_by_item(store: SqliteStore) -> None:
    async def enqueue(tx: Tx, items: Any) -> list[int]:
        return [row[0] for row in await tx.each(INSERT, [{"text": item} for item in items]) if row]

    assert store.write_list(ListOp(enqueue, ["a", "b"])) == [1, 2]
    assert asyncio.run(store.awrite_list(ListOp(enqueue, ["c", "d"]))) == [3, 4]


def test_lists_of_one_kind_that_wait_together_are_one_operation_with_answers_of_their_own(store: SqliteStore) -> None:
    calls: list[list[str]] = []

    async def shout(tx: Tx, items: Any) -> list[str]:
        calls.append(list(items))
        await tx.each(INSERT, [{"text": item} for item in items])
        return [item.upper() for item in items]

    lists = [ListOp(shout, items) for items in (["a"], ["b", "c"], [])]
    assert together(store, *lists, add("d"), ListOp(shout, ["e"])) == [["A"], ["B", "C"], [], 4, ["E"]]
    assert calls == [["a", "b", "c"], ["e"]]
    assert store.read(TEXTS) == ["a", "b", "c", "d", "e"]


def test_a_list_that_fails_among_its_like_fails_alone(store: SqliteStore) -> None:
    async def keep(tx: Tx, items: Any) -> list[str]:
        for item in items:
            if item == "bad":
                raise ValueError("not this one")
            await tx.each(INSERT, [{"text": item}])
        return list(items)

    first, failed, last = together(store, *(ListOp(keep, [item]) for item in ("a", "bad", "b")))
    assert (first, last) == (["a"], ["b"])
    assert isinstance(failed, ValueError)
    assert store.read(TEXTS) == ["a", "b"]


def test_an_operation_has_one_time_and_it_is_the_tests(path: Path) -> None:
    clock = ManualClock()
    store = prepare(SqliteStore(path, clock=clock))

    async def twice(tx: Tx) -> list[int]:
        first = await tx.one(INSERT, text="a")
        clock.advance(1)
        second = await tx.one(INSERT, text="b")
        assert first is not None
        assert second is not None
        return [first[1], second[1]]

    start = clock.now()
    assert store.write(Op(twice)) == [start, start]
    store.close()


def test_a_failing_operation_leaves_nothing_and_its_neighbours_stay(store: SqliteStore) -> None:
    answers = together(store, add("a"), add("half", "a"), add("b", single=True), add("a", single=True), add("c"))
    assert [isinstance(answer, StorageError) for answer in answers] == [False, True, False, True, False]
    assert store.read(TEXTS) == ["a", "b", "c"]


def test_a_lone_failing_operation_leaves_nothing(store: SqliteStore) -> None:
    with pytest.raises(StorageError, match="UNIQUE"):
        store.write(add("a", "a"))
    assert store.read(TEXTS) == []
    assert not writing(store).in_transaction


def test_an_operations_own_error_reaches_its_caller_as_it_is(store: SqliteStore) -> None:
    class Odd(Exception):
        pass

    async def odd(tx: Tx) -> None:
        await tx.one(INSERT, text="gone")
        raise Odd

    with pytest.raises(Odd):
        store.write(Op(odd))
    assert isinstance(together(store, add("a"), Op(odd))[1], Odd)
    assert store.read(TEXTS) == ["a"]


def test_an_operation_that_suspends_is_refused(store: SqliteStore) -> None:
    async def sleepy(tx: Tx) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="suspended"):
        store.write(Op(sleepy))
    assert store.write(add("a")) == 1


def test_a_batch_ends_after_its_time_and_the_rest_follows(store: SqliteStore) -> None:
    clock = ActiveLimits()

    async def slow(tx: Tx) -> str:
        clock.now += 1.1 * BATCH_SECONDS
        return "slow"

    assert together(store, add("a"), Op(slow), add("b"), clock=clock) == [1, "slow", "left"]


def test_the_connection_that_writes_keeps_its_scratch_files_in_memory(store: SqliteStore) -> None:
    in_memory = 2
    assert writing(store).execute("pragma temp_store").fetchone() == (in_memory,)
    store.migrate()
    assert writing(store).execute("pragma temp_store").fetchone() == (in_memory,)


def test_a_read_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(HoldfastError):
        store.read(add("x"))
    with pytest.raises(HoldfastError):
        asyncio.run(store.aread(add("x")))
    assert store.read(TEXTS) == []


def test_a_read_sees_one_snapshot_while_others_write(store: SqliteStore) -> None:
    async def looks_twice(tx: Tx) -> tuple[int, int]:
        before = await TEXTS.run(tx)
        writer = threading.Thread(target=store.write, args=(add("meanwhile"),))
        writer.start()
        writer.join(SOON)
        return len(before), len(await TEXTS.run(tx))

    assert store.read(Op(looks_twice)) == (0, 0)
    assert store.read(TEXTS) == ["meanwhile"]


def test_a_long_read_leaves_the_event_loops_thread(store: SqliteStore) -> None:
    where: list[int] = []

    async def slowly(tx: Tx) -> int:
        answer = await SLOWLY.run(tx)
        where.append(threading.get_ident())
        return answer

    assert asyncio.run(store.aread(Op(slowly))) == 300_000
    assert where != [threading.get_ident()]


def test_a_long_read_that_fails_is_told_in_our_own_errors(store: SqliteStore) -> None:
    async def fails_late(tx: Tx) -> None:
        await SLOWLY.run(tx)
        await tx.one(Statement("nonsense", "select 1 from nowhere", ""))

    with pytest.raises(StorageError, match="nowhere"):
        asyncio.run(store.aread(Op(fails_late)))


def test_another_processes_lock_is_waited_for(store: SqliteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    timer = threading.Timer(0.05, other.rollback)
    timer.start()
    assert store.write(Op(add("a").run, patience=SOON)) == 1
    timer.join()
    other.close()


def test_a_lock_held_past_the_callers_patience_is_busy(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever waited for as long as others do would still be waiting.
    monkeypatch.setattr(work, "PATIENCE", 600.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    impatient = Op(add("a").run, patience=0.05)
    with pytest.raises(StorageBusy, match=r"held the lock for 0\.05 s"):
        store.write(impatient)
    with pytest.raises(StorageBusy):
        asyncio.run(store.awrite(impatient))
    other.rollback()
    other.close()
    assert store.write(impatient) == 1


def test_the_impatient_do_not_wait_for_the_patient(store: SqliteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    patient = threading.Thread(target=store.write, args=(Op(add("patient").run, patience=20),))
    patient.start()
    while store._combiner.idle:
        time.sleep(0.001)
    with pytest.raises(StorageBusy):
        store.write(Op(add("impatient").run, patience=0.2))
    other.rollback()
    other.close()
    patient.join(SOON)
    assert store.read(TEXTS) == ["patient"]


ROLLBACK = Statement("rollback", "rollback", "")


def fill(store: SqliteStore, spare: int) -> None:
    """Let the file grow by so many pages and no more."""
    pages = writing(store).execute("pragma page_count").fetchone()[0]
    writing(store).execute(f"pragma max_page_count={pages + spare}").fetchall()


def test_a_full_disk_in_the_middle_of_a_batch_loses_no_neighbours_write_and_commits_nothing_piecemeal(
    store: SqliteStore,
) -> None:
    fill(store, 8)
    huge = add("x" * 400_000)
    answers = together(store, add("a"), huge, add("b", "c"), huge, add("d"))
    assert [type(answer) for answer in answers] == [int, StorageFull, int, StorageFull, int]
    assert store.read(TEXTS) == ["a", "b", "c", "d"]
    assert not writing(store).in_transaction


def test_on_a_full_disk_an_operation_is_kept_whole_or_not_at_all(store: SqliteStore) -> None:
    fill(store, 4)
    with pytest.raises(StorageFull, match="free disk space"):
        store.write(add("half", "x" * 400_000))
    assert store.read(TEXTS) == []
    writing(store).execute("pragma max_page_count=1000000").fetchall()
    assert store.write(add("healed")) == 1


def test_an_operation_that_swallows_the_loss_of_its_transaction_is_not_believed(store: SqliteStore) -> None:
    async def swallow(tx: Tx) -> str:
        await tx.one(INSERT, text="lost")
        await tx.one(ROLLBACK)
        return "all is well"

    answers = together(store, add("before"), Op(swallow), add("after"))
    assert [type(answer) for answer in answers] == [int, StorageError, int]
    assert store.read(TEXTS) == ["before", "after"]


@pytest.mark.parametrize("single", [False, True])
def test_after_sqlite_rolled_everything_back_nothing_commits_by_itself(store: SqliteStore, single: bool) -> None:
    async def loses_all(tx: Tx) -> None:
        await tx.one(INSERT, text="lost")
        await tx.one(ROLLBACK)
        raise ValueError("as a full disk would do it")

    lost = Op(loses_all, single=single)
    answers = together(store, add("a", single=True), lost, add("b", "c"), add("b", single=True), add("d"))
    assert [type(answer) for answer in answers] == [int, ValueError, int, StorageError, int]
    assert store.read(TEXTS) == ["a", "b", "c", "d"]


def test_a_commit_that_fails_is_rolled_back_and_told(store: SqliteStore) -> None:
    async def orphan(tx: Tx) -> None:
        await tx.one(_PARENT)
        await tx.one(_CHILD)

    store.write(Op(lambda tx: _create_family(tx)))
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        store.write(Op(orphan))
    answers = together(store, add("a"), Op(orphan), add("b"))
    assert [isinstance(answer, StorageError) for answer in answers] == [False, True, False]
    assert store.read(TEXTS) == ["a", "b"]


_PARENT = Statement("parent", "insert into parent default values", "")
_CHILD = Statement("child", "insert into child (parent) values (77)", "")


async def _create_family(tx: Tx) -> None:
    await tx.one(Statement("p", "create table parent (id integer primary key)", ""))
    await tx.one(
        Statement("c", "create table child (parent integer references parent (id) deferrable initially deferred)", "")
    )


def test_a_closed_store_refuses_everything(path: Path) -> None:
    store = prepare(SqliteStore(path))
    store.close()
    for call in (lambda: store.write(add("x")), lambda: store.read(TEXTS), store.describe):
        with pytest.raises(StorageUnavailable, match="closed"):
            call()
    store.close()


def test_threads_tasks_and_failures_together_keep_exactly_what_succeeded(store: SqliteStore) -> None:
    kept: list[str] = []

    def attempt(name: str, n: int) -> Op[int]:
        return add(f"{name}-{n}", *(["bad", "bad"] if n % 7 == 0 else []))

    def thread(name: str) -> None:
        for n in range(60):
            try:
                store.write(attempt(name, n))
            except StorageError:
                continue
            kept.append(f"{name}-{n}")

    async def task(name: str) -> None:
        for n in range(15):
            try:
                await store.awrite(attempt(name, n))
            except StorageError:
                continue
            kept.append(f"{name}-{n}")

    async def tasks(name: str) -> None:
        await asyncio.gather(*(task(f"{name}{n}") for n in range(20)))

    calls: list[Callable[[], Any]] = [lambda n=n: thread(f"thread{n}") for n in range(6)]  # type: ignore[misc]
    calls += [lambda n=n: asyncio.run(tasks(f"loop{n}")) for n in range(2)]  # type: ignore[misc]
    threads = [threading.Thread(target=call) for call in calls]
    for each in threads:
        each.start()
    for each in threads:
        each.join(SOON)
    assert len(kept) == 6 * 51 + 40 * 12
    assert sorted(store.read(TEXTS)) == sorted(kept)


def test_ctrl_c_while_leading_a_sqlite_commit_hangs_nobody_and_keeps_what_was_acknowledged(store: SqliteStore) -> None:
    acknowledged: list[str] = []
    stop = threading.Event()

    def neighbour() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            try:
                store.write(add(f"neighbour-{n}"))
            except OutcomeUnknown:
                continue
            acknowledged.append(f"neighbour-{n}")

    thread = threading.Thread(target=neighbour)
    thread.start()
    for trial in range(60):
        begun = threading.Event()
        killer = threading.Thread(target=_interrupt_main, args=(begun, trial * 0.00005))
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            _write_until_interrupted(store, f"main-{trial}", acknowledged, begun)
        killer.join()
        before = len(acknowledged)
        assert store.write(add(f"after-{trial}")) > 0
        while len(acknowledged) == before:
            time.sleep(0.0005)
    stop.set()
    thread.join(SOON)
    assert not thread.is_alive()
    assert set(acknowledged) <= set(store.read(TEXTS))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), sqlite3.DatabaseError("garbled")], ids=["ctrl-c", "error"])
def test_what_comes_when_the_lock_is_taken_and_nothing_else_gives_it_back(
    store: SqliteStore, path: Path, error: BaseException
) -> None:
    writer = store._session().writer
    asked, refusal = [error], writer._refusal

    def interrupted() -> Exception | None:
        if asked:
            raise asked.pop()
        return refusal()

    writer._refusal = interrupted
    with pytest.raises((KeyboardInterrupt, StorageError)):
        store.write(add("a"))
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as stranger:
        stranger.execute("begin immediate")
        stranger.execute("rollback")
    store.write(add("b"))
    assert store.read(TEXTS) == ["b"]


def _interrupt_main(begun: threading.Event, delay: float) -> None:
    begun.wait(SOON)
    time.sleep(delay)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _write_until_interrupted(store: SqliteStore, name: str, acknowledged: list[str], begun: threading.Event) -> None:
    begun.set()
    n = 0
    while True:
        n += 1
        store.write(add(f"{name}-{n}"))
        acknowledged.append(f"{name}-{n}")
