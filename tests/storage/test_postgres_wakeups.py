"""Wake-ups on Postgres: in the process at once, to others after the commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import takewhile

import psycopg
import pytest

from holdfast.errors import StorageError
from holdfast.storage.port import Listener
from holdfast.storage.postgres import PostgresStore, notify
from holdfast.storage.postgres.notify import payloads
from tests.patience import SOON
from tests.storage import kit

BRIEFLY = 0.2


@pytest.fixture
def other(noted_dsn: str) -> Iterator[PostgresStore]:
    """The same database, as another process has it open."""
    opened = PostgresStore(noted_dsn)
    yield opened
    opened.close()


def settled(store: PostgresStore, topics: list[str]) -> Listener:
    """A listener whose LISTEN is up: its start notifies once."""
    ear = store.wakeups.listen(topics)
    assert ear.wait(SOON)
    return ear


def test_a_commit_wakes_listeners_of_its_topic_in_this_process(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)
    mine, others = store.wakeups.listen(["queue:a"]), store.wakeups.listen(["queue:b"])
    store.write(kit.insert("a", topic="queue:a"))
    assert mine.wait(0)
    assert not others.wait(0)
    store.close()


def test_a_ring_while_nobody_waits_is_kept_once(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)
    ear = store.wakeups.listen(["queue:a"])
    store.wakeups.notify(["queue:a"])
    store.wakeups.notify(["queue:a"])
    assert ear.wait(0)
    assert not ear.wait(0)
    store.close()


def test_a_rollback_wakes_nobody(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)
    ear = store.wakeups.listen(["queue:a"])
    with pytest.raises(StorageError, match="division by zero"):
        store.write(kit.insert_then_divide_by_zero("a"))
    assert not ear.wait(0)
    store.close()


def test_a_waiting_task_is_woken_by_a_thread(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)

    async def wait() -> bool:
        ear = store.wakeups.listen(["queue:a"])
        writer = threading.Thread(target=store.write, args=(kit.insert("a"),))
        waiting = asyncio.create_task(ear.await_ring(SOON))
        await asyncio.sleep(0)
        writer.start()
        rang = await waiting
        writer.join()
        return rang

    assert asyncio.run(wait())
    store.close()


def test_a_commit_wakes_another_process(store: PostgresStore, other: PostgresStore) -> None:
    ear = settled(other, ["queue:a"])
    store.write(kit.insert("a"))
    assert ear.wait(SOON)


def test_a_commit_wakes_a_task_in_another_process(store: PostgresStore, other: PostgresStore) -> None:
    ear = settled(other, ["queue:a"])

    async def both() -> bool:
        await store.awrite_list(kit.insert_list(["a"]))
        return await ear.await_ring(SOON)

    assert asyncio.run(both())


def test_what_this_process_sent_does_not_ring_twice(store: PostgresStore, other: PostgresStore) -> None:
    mine, theirs = settled(store, ["queue:a"]), settled(other, ["queue:a"])
    store.write(kit.insert("a"))
    assert mine.wait(0)
    assert theirs.wait(SOON)
    assert not mine.wait(BRIEFLY)


def test_rings_in_a_burst_are_sent_together(store: PostgresStore, noted_dsn: str) -> None:
    with psycopg.connect(noted_dsn, autocommit=True) as listener:
        listener.execute("listen holdfast")
        began = time.monotonic()
        for n in range(50):
            store.write(kit.insert(f"n{n}", topic=f"queue:{n % 5}"))
        store.wakeups.flush(SOON)
        took = time.monotonic() - began
        with psycopg.connect(noted_dsn, autocommit=True) as last:
            last.execute("notify holdfast, 'the end'")
        heard = list(takewhile(lambda notice: notice.payload != "the end", listener.notifies(timeout=SOON)))
    assert {topic for notice in heard for topic in notice.payload.split("\n")} == {f"queue:{n}" for n in range(5)}
    assert len(heard) <= 2 + took / notify._SHORTEST


def test_with_notify_off_nothing_is_sent_or_heard(noted_dsn: str) -> None:
    store = PostgresStore(noted_dsn, notify=False)
    with psycopg.connect(noted_dsn, autocommit=True) as listener:
        listener.execute("listen holdfast")
        store.wakeups.listen(["queue:a"])
        store.write(kit.insert("a"))
        assert list(listener.notifies(timeout=BRIEFLY)) == []
        count = "select count(*) from pg_stat_activity where datname = current_database() and query like 'listen%%'"
        assert listener.execute(count).fetchone() == (0,)
    store.close()


def test_a_broken_listen_connection_comes_back_and_rings_for_what_it_missed(
    store: PostgresStore, other: PostgresStore, noted_dsn: str
) -> None:
    ear = settled(other, ["queue:a"])
    with psycopg.connect(noted_dsn, autocommit=True) as admin:
        admin.execute(kit.END_OTHERS)
    assert ear.wait(SOON)
    store.write(kit.insert("a"))
    assert ear.wait(SOON)


def test_closing_wakes_who_waits(store: PostgresStore) -> None:
    ear = settled(store, ["queue:a"])
    done = threading.Event()

    def wait() -> None:
        ear.wait(10 * SOON)
        done.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    ear.close()
    assert done.wait(SOON)
    waiter.join()


def test_a_store_leaves_no_thread_behind(noted_dsn: str) -> None:
    before = set(threading.enumerate())
    store = PostgresStore(noted_dsn)
    settled(store, ["queue:a"])
    store.write(kit.insert("a"))
    store.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(SOON)
        assert not thread.is_alive()


def test_a_ring_while_the_idle_sender_hangs_up_is_sent(
    store: PostgresStore, noted_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so are those after it: each of them was taken for one that is about to be sent."""
    hanging_up, rang = threading.Event(), threading.Event()
    hang_up = psycopg.Connection.close

    def close(connection: psycopg.Connection[object]) -> None:
        if threading.current_thread().name == "holdfast-notify" and not hanging_up.is_set():
            hanging_up.set()
            assert rang.wait(SOON)
        hang_up(connection)

    monkeypatch.setattr(notify, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(psycopg.Connection, "close", close)
    with psycopg.connect(noted_dsn, autocommit=True) as listener:
        listener.execute("listen holdfast")
        store.write(kit.insert("a", topic="queue:a"))
        assert hanging_up.wait(SOON)
        store.write(kit.insert("b", topic="queue:a"))
        rang.set()
        store.wakeups.flush(SOON)
        assert len(list(listener.notifies(timeout=SOON, stop_after=2))) == 2


def test_topics_that_fill_a_payload_go_in_several() -> None:
    topics = [f"queue:{n:04}{'x' * 100}" for n in range(200)]
    found = payloads(topics)
    assert all(len(payload.encode()) < 8_000 for payload in found)
    assert [topic for payload in found for topic in payload.split("\n")] == topics
    assert payloads([]) == []
