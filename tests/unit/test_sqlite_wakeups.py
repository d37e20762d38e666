"""Wake-ups: within the process, from another process, and none without a cause."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StorageError
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.sqlite.inotify import FileEvents
from tests.patience import SOON
from tests.unit.sqlite_kit import TEXTS, add, prepare

# Seconds. Who is not woken waits for so long.
LONG = 600.0
WRITER = """
import sys
from holdfast.storage.sqlite import SqliteStore
from tests.unit.sqlite_kit import add
store = SqliteStore(sys.argv[1])
store.describe()
print("ready", flush=True)
for line in sys.stdin:
    how, text = line.split(maxsplit=1)
    if how == "lent":
        connection = store.connect()
        connection.execute("begin immediate")
        store.within(connection, add(text, topic="job"))
        connection.commit()
        connection.close()
    else:
        store.write(add(text, topic=None if how == "quiet" else how))
    print("written", flush=True)
"""


@pytest.fixture
def stranger(store: SqliteStore, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process on the same file, that writes what it is told."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "jobs.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.communicate(timeout=SOON)


def tell(stranger: subprocess.Popen[str], text: str, *, how: str = "job") -> None:
    """Have it write: under a topic, `quiet`, or `lent` in a transaction of its own."""
    assert stranger.stdin is not None
    assert stranger.stdout is not None
    stranger.stdin.write(f"{how} {text}\n")
    stranger.stdin.flush()
    assert stranger.stdout.readline() == "written\n"


def test_a_committed_write_rings_its_topic_and_no_other(store: SqliteStore) -> None:
    mine, other = store.wakeups.listen(["job", "more"]), store.wakeups.listen(["else"])
    store.write(add("a", topic="job"))
    assert mine.wait(0)
    assert not mine.wait(0)
    assert not other.wait(0.02)
    mine.close()
    other.close()


def test_a_failed_write_rings_nobody(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    with pytest.raises(StorageError):
        store.write(add("a", "a", topic="job"))
    assert not ear.wait(0.02)
    ear.close()


def test_a_ring_while_nobody_waits_is_kept_once(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    store.wakeups.notify(["job"])
    store.wakeups.notify(["job"])

    async def main() -> tuple[bool, bool]:
        return await ear.await_ring(0), await ear.await_ring(0)

    assert asyncio.run(main()) == (True, False)
    ear.close()


def test_a_thread_and_a_task_that_wait_are_woken(store: SqliteStore) -> None:
    thread_ear, task_ear = store.wakeups.listen(["job"]), store.wakeups.listen(["job"])
    rang: list[bool] = []
    thread = threading.Thread(target=lambda: rang.append(thread_ear.wait(LONG)), daemon=True)
    thread.start()

    async def main() -> bool:
        task = asyncio.ensure_future(task_ear.await_ring(LONG))
        await asyncio.sleep(0.01)
        await store.awrite(add("a", topic="job"))
        return await asyncio.wait_for(task, SOON)

    assert asyncio.run(main())
    thread.join(SOON)
    assert rang == [True]
    thread_ear.close()
    task_ear.close()


def test_a_cancelled_wait_keeps_the_ring_for_the_next(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])

    async def main() -> bool:
        task = asyncio.ensure_future(ear.await_ring(LONG))
        await asyncio.sleep(0)
        ear.notify()
        task.cancel()
        await asyncio.wait((task,))
        return task.cancelled() and await ear.await_ring(0)

    assert asyncio.run(main())
    ear.close()


def test_closing_a_listener_sends_its_waiter_home(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    waiter = threading.Thread(target=ear.wait, args=(LONG,), daemon=True)
    waiter.start()
    waiter.join(0.01)
    ear.close()
    waiter.join(SOON)
    assert not waiter.is_alive()
    assert not store.wakeups.has_listeners


@pytest.mark.parametrize("inotify", [True, False])
def test_another_processs_commit_rings_soon(
    store: SqliteStore, stranger: subprocess.Popen[str], inotify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inotify:
        monkeypatch.setattr(FileEvents, "on", lambda path: None)
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    delays: list[float] = []
    for n in range(10):
        heard: list[float] = []
        thread = threading.Thread(target=lambda heard=heard: heard.append(time.monotonic()) if ear.wait(SOON) else None)
        thread.start()
        tell(stranger, f"n{n}")
        told = time.monotonic()
        thread.join(SOON)
        assert heard, "the commit was missed"
        delays.append(heard[0] - told)
    assert sorted(delays)[2] < 0.05, "a busy machine keeps some of them"
    ear.close()


def test_another_processs_commit_is_kept_for_who_waits_later(
    store: SqliteStore, stranger: subprocess.Popen[str]
) -> None:
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.02)
    tell(stranger, "while nobody waits")
    assert ear.wait(SOON)
    assert not ear.wait(0.05)
    ear.close()


def test_a_stranger_is_noticed_at_our_own_commit(store: SqliteStore, stranger: subprocess.Popen[str]) -> None:
    ear = store.wakeups.listen(["job"])
    tell(stranger, "theirs")
    store.write(add("ours"))
    assert ear.wait(0)
    ear.close()


def test_another_process_wakes_those_who_listen_to_what_it_rings_and_nobody_else(
    store: SqliteStore, stranger: subprocess.Popen[str]
) -> None:
    mine, other = store.wakeups.listen(["job"]), store.wakeups.listen(["else"])
    assert not mine.wait(0.05)
    tell(stranger, "a heartbeat", how="quiet")
    assert not mine.wait(0.2)
    tell(stranger, "a job")
    assert mine.wait(SOON)
    assert not other.wait(0.05)
    mine.close()
    other.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of the connections that are opened from now on."""
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return statements


def test_who_waits_asks_the_database_nothing_while_others_commit(
    stranger: subprocess.Popen[str], tmp_path: Path, asked: list[str]
) -> None:
    idle = SqliteStore(tmp_path / "jobs.db")
    ear = idle.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    asked.clear()
    for n in range(20):
        tell(stranger, f"{n}", how="quiet")
    tell(stranger, "the last")
    assert ear.wait(SOON)
    assert asked == []
    ear.close()
    idle.close()


def test_who_waits_asks_nothing_again_soon_after_a_lent_transaction_has_ended(
    stranger: subprocess.Popen[str], tmp_path: Path, asked: list[str]
) -> None:
    idle = SqliteStore(tmp_path / "jobs.db")
    ear = idle.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    tell(stranger, "a job", how="lent")
    assert ear.wait(SOON)
    # If its commit came before the announcement was read, the next commit is taken for it, once.
    for n in range(10):
        tell(stranger, f"heartbeat {n}", how="quiet")
        while ear.wait(0.2):
            pass
        if not asked:
            break
        asked.clear()
    assert n < 9
    tell(stranger, "another job", how="lent")
    assert ear.wait(SOON)
    ear.close()
    idle.close()


def test_a_transaction_that_another_process_lends_wakes_too(
    store: SqliteStore, stranger: subprocess.Popen[str]
) -> None:
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    for n in range(3):
        tell(stranger, f"{n}", how="lent")
        assert ear.wait(SOON)
        while ear.wait(0.2):  # a commit that carries no topic may be told of twice
            pass
    ear.close()


def test_a_deleted_file_of_notices_is_made_anew(
    store: SqliteStore, stranger: subprocess.Popen[str], tmp_path: Path
) -> None:
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    tell(stranger, "before")
    assert ear.wait(SOON)
    (tmp_path / "jobs.db-notify").unlink()
    # Each side finds out by itself; until then a ring may be lost.
    patient = time.monotonic() + SOON
    n = 0
    while not ear.wait(0.1):
        assert time.monotonic() < patient
        tell(stranger, f"after {n}")
        n += 1
    ear.close()


def test_without_the_file_of_notices_every_commit_of_another_process_wakes(
    tmp_path: Path, stranger: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "jobs.db-notify").unlink()
    (tmp_path / "jobs.db-notify").mkdir()
    other = SqliteStore(tmp_path / "jobs.db")
    ear = other.wakeups.listen(["job"])
    assert not ear.wait(0.05)
    tell(stranger, "unheard", how="quiet")
    assert ear.wait(SOON)
    assert "jobs.db-notify cannot be used" in caplog.text
    ear.close()
    other.close()


def test_a_forked_childs_ring_wakes_its_parent(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    store.write(add("the parent's", topic="job"))
    heard, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(heard, 1)
            store.write(add("the child's", topic="job"))
        finally:
            os._exit(0)
    while ear.wait(0.2):  # the fork itself rings
        pass
    os.write(go, b"x")
    assert ear.wait(SOON)
    os.waitpid(child, 0)
    os.close(heard)
    os.close(go)
    ear.close()


def test_our_own_commits_wake_no_other_listener(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    assert not ear.wait(0.01)
    done = threading.Event()

    def write() -> None:
        for n in range(50):
            store.write(add(f"{n}", topic="else"))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not ear.wait(0.3)
    thread.join(SOON)
    assert done.is_set()
    ear.close()


def test_the_watch_starts_with_the_first_who_waits_and_sleeps_while_nothing_happens(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    store.write(add("a"))
    assert store._watch._thread is None
    assert not ear.wait(0.02)
    assert store._watch._thread is not None
    before = time.process_time()
    assert not ear.wait(0.5)
    assert time.process_time() - before < 0.1, "half a second of looks would take more, even on a busy machine"
    ear.close()


def test_a_lent_connections_commit_rings_within_50_ms_and_its_rollback_never(store: SqliteStore) -> None:
    ear = store.wakeups.listen(["job"])
    connection = store.connect()
    connection.execute("begin immediate")
    store.within(connection, add("gone", topic="job"))
    connection.rollback()
    assert not ear.wait(0.1)
    delays: list[float] = []
    for n in range(5):
        connection.execute("begin immediate")
        store.within(connection, add(f"kept {n}", topic="job"))
        assert not ear.wait(0.02)
        connection.commit()
        start = time.monotonic()
        assert ear.wait(SOON)
        delays.append(time.monotonic() - start)
    assert sorted(delays)[1] < 0.05, "a busy machine keeps some of them"
    assert store.read(TEXTS) == [f"kept {n}" for n in range(5)]
    connection.close()
    ear.close()


def test_in_memory_a_lent_connections_commit_rings_too() -> None:
    store = prepare(SqliteStore(":memory:"))
    ear = store.wakeups.listen(["job"])
    connection = store.connect()
    connection.execute("begin immediate")
    store.within(connection, add("kept", topic="job"))
    connection.commit()
    assert ear.wait(SOON)
    connection.close()
    store.close()


def test_closing_the_store_ends_its_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = prepare(SqliteStore(tmp_path / "other.db"))
    ear = store.wakeups.listen(["job"])
    asyncio.run(store.awrite(add("a")))
    assert not ear.wait(0.01)
    store.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(SOON)
        assert not thread.is_alive()
