"""A process forks while it has a SQLite store open: neither side loses or harms anything."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import StorageUnavailable
from holdfast.storage.port import Op, Tx
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.statements import Statement
from tests.patience import SOON
from tests.unit.sqlite_kit import INSERT, SLOWLY, TEXTS, add

STRANGER = """
import sys
from holdfast.storage.sqlite import SqliteStore
from tests.unit.sqlite_kit import add
SqliteStore(sys.argv[1]).write(add("stranger", topic="job"))
"""
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def in_child(call: Callable[[], bool]) -> int:
    """Fork; the child's exit code is 0 if the call returned True."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if call() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_reopens_the_file_and_leaves_the_parents_connections_alone(store: SqliteStore) -> None:
    store.write(add("parent"))
    asyncio.run(store.awrite(add("awaiting parent")))
    store.read(TEXTS)
    ear = store.wakeups.listen(["x"])
    assert not ear.wait(0.01)
    before = store._session()

    def child() -> bool:
        if store._session() is before:
            return False
        store.write(add("child"))
        asyncio.run(store.awrite(add("awaiting child")))
        here = len(store.read(TEXTS)) == 4
        store.close()
        return here

    assert in_child(child) == 0
    store.write(add("parent again"))
    assert len(store.read(TEXTS)) == 5
    assert ear.wait(SOON)
    assert store.read(_CHECK) == "ok"
    ear.close()


def test_a_fork_during_a_commit_of_another_thread_waits_for_it_and_harms_neither_side(store: SqliteStore) -> None:
    inside, go_on = threading.Event(), threading.Event()

    async def held(tx: Tx) -> None:
        await tx.one(INSERT, text="parent")
        inside.set()
        go_on.wait(0.2)

    thread = threading.Thread(target=store.write, args=(Op(held),))
    thread.start()
    inside.wait(SOON)

    def child() -> bool:
        store.write(add("child"))
        return store.read(TEXTS) == ["parent", "child"]

    assert in_child(child) == 0
    thread.join(SOON)
    store.write(add("parent again"))
    assert store.read(TEXTS) == ["parent", "child", "parent again"]


def test_a_child_holds_the_file_so_that_nobody_takes_its_log_away(store: SqliteStore, path: Path) -> None:
    """Whoever closes the file last, by the locks that it can see, removes the log. A child must be seen."""
    store.write(add("parent"))
    log = Path(f"{path}-wal")

    def child() -> bool:
        store.write(add("child"))
        os.kill(os.getppid(), signal.SIGUSR1)  # the parent closes
        while not closed.exists():
            time.sleep(0.01)
        return log.exists() and store.read(TEXTS) == ["parent", "child"]

    closed = path.with_name("closed")

    def close(*_: object) -> None:
        store.close()
        closed.touch()

    before = signal.signal(signal.SIGUSR1, close)
    try:
        assert in_child(child) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_child_of_a_process_with_a_lent_connection_is_refused_by_name(store: SqliteStore) -> None:
    lent = store.connect()

    def child() -> bool:
        with pytest.raises(StorageUnavailable, match="before a fork"):
            store.write(add("child"))
        return True

    assert in_child(child) == 0
    lent.close()
    store.write(add("parent"))
    assert in_child(lambda: store.read(TEXTS) == ["parent"]) == 0


def test_a_child_that_forks_with_a_lent_connection_keeps_its_own_store(store: SqliteStore) -> None:
    store.write(add("parent"))

    def child() -> bool:
        lent = store.connect()
        refused = in_child(refuses) == 0
        store.write(add("child"))
        lent.close()
        return refused and in_child(lambda: store.read(TEXTS) == ["parent", "child"]) == 0

    def refuses() -> bool:
        with pytest.raises(StorageUnavailable, match="before a fork"):
            store.write(add("grandchild"))
        return True

    assert in_child(child) == 0


def test_a_fork_while_long_reads_wait_for_their_turn_waits_for_none_of_them(store: SqliteStore) -> None:
    begun = threading.Semaphore(0)

    async def slowly(tx: Tx) -> int:
        begun.release()
        return await SLOWLY.run(tx)

    async def read_many() -> list[int]:
        return await asyncio.gather(*(store.aread(Op(slowly)) for _ in range(12)))

    answers: list[list[int]] = []
    reading = threading.Thread(target=lambda: answers.append(asyncio.run(read_many())))
    reading.start()
    for _ in range(14):  # each of the twelve was tried on the loop, and the first go on in threads
        assert begun.acquire(timeout=SOON)
    assert in_child(lambda: store.write(add("child")) > 0) == 0
    reading.join(SOON)
    assert answers == [[300000] * 12]
    assert store.read(TEXTS) == ["child"]


def test_after_a_fork_the_parent_still_hears_of_other_processes(store: SqliteStore, path: Path) -> None:
    store.write(add("parent"))
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    assert in_child(lambda: True) == 0
    while ear.wait(0.2):  # what happened meanwhile is told of once
        pass
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(ear.wait(SOON)))
    waiting.start()
    subprocess.run([sys.executable, "-c", STRANGER, str(path)], env=ENV, check=True, timeout=SOON)
    waiting.join(SOON)
    assert heard == [True]
    ear.close()


async def _check(tx: Tx) -> str:
    row = await tx.one(Statement("check", "pragma integrity_check", ""))
    return str(row and row[0])


_CHECK: Op[str] = Op(_check)
