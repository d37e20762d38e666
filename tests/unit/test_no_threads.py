"""For a moment the system gives no thread: whoever asked is told or goes without, and the next one is served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StorageUnavailable
from holdfast.storage.postgres.blocking_threads import BlockingThreads
from holdfast.storage.postgres.connect import Address
from holdfast.storage.postgres.deadlines import Deadlines
from holdfast.storage.postgres.listen import ListenThread
from holdfast.storage.postgres.notify import NotifyThread
from holdfast.storage.sqlite import SqliteStore
from tests.patience import SOON
from tests.unit.sqlite_kit import TEXTS, add, prepare


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db")
    yield store
    store.close()


def test_a_task_that_writes_is_told_and_its_write_is_not_done_later(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with no_threads(monkeypatch), pytest.raises(StorageUnavailable, match="no thread"):
            await store.awrite(add("refused"))
        await asyncio.wait_for(store.awrite(add("served")), SOON)

    prepare(store)
    asyncio.run(main())
    assert store.read(TEXTS) == ["served"]


def test_a_commit_succeeds_without_a_checkpoint_and_a_later_one_brings_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(store)
    with no_threads(monkeypatch):
        store.write(add("first"))
    assert "no checkpoints for now" in caplog.text
    store.write(add("later"))
    checkpointer = store._session()._checkpointer
    assert checkpointer is not None
    assert checkpointer._thread is not None


def test_who_waits_for_a_ring_polls_and_the_next_one_has_a_watch(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(store)
    ear = store.wakeups.listen(["job"])
    with no_threads(monkeypatch):
        assert not ear.wait(0)
    assert "by polling alone" in caplog.text
    assert not ear.wait(0)
    assert store._watch._thread is not None
    ear.close()


def test_tasks_on_postgres_lose_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        hands = BlockingThreads(asyncio.get_running_loop(), 1, 1.0)
        with no_threads(monkeypatch), pytest.raises(StorageUnavailable, match="no thread"):
            await hands.run(int)
        assert await hands.run(int) == 0
        hands.close()

    asyncio.run(main())


def test_a_notification_goes_out_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = NotifyThread(_nowhere(), "holdfast", Deadlines(5.0))
    with no_threads(monkeypatch):
        thread.send(["queue:a"])
    assert thread._topics == {"queue:a"}
    thread.send(["queue:a"])
    thread.flush(10)
    assert thread._topics == set()
    thread.close()


def test_who_listens_polls_and_is_heard_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    thread = ListenThread(_nowhere(), "holdfast", lambda *_: None, Deadlines(5.0))
    with no_threads(monkeypatch):
        thread.ensure_running()
    assert "by polling alone" in caplog.text
    thread.ensure_running()
    assert thread._thread is not None
    thread.close()


def _nowhere() -> Address:
    """Where no server is."""
    return Address("host=127.0.0.1 port=1 connect_timeout=1", prepare=False, place="nowhere")
