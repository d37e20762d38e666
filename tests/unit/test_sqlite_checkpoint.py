"""Checkpoints run in one place, under the write lock, small and often."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import StorageBusy
from holdfast.storage.port import Op
from holdfast.storage.sqlite import SqliteStore, checkpoint
from holdfast.storage.sqlite.checkpoint import Checkpointer, has_wal_reset_bug
from tests.patience import SOON
from tests.unit.sqlite_kit import TEXTS, add, prepare


def checkpointer(store: SqliteStore) -> Checkpointer:
    found = store._session()._checkpointer
    assert found is not None
    return found


@pytest.mark.parametrize("version", [(3, 40, 1), (3, 44, 5), (3, 45, 1), (3, 50, 6), (3, 51, 2)])
def test_versions_with_the_wal_reset_bug(version: tuple[int, int, int]) -> None:
    assert has_wal_reset_bug(version)


@pytest.mark.parametrize("version", [(3, 6, 23), (3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0), (4, 0, 0)])
def test_versions_without_the_wal_reset_bug(version: tuple[int, int, int]) -> None:
    assert not has_wal_reset_bug(version)


def test_no_connection_checkpoints_by_itself(store: SqliteStore) -> None:
    store.read(TEXTS)
    session = store._session()
    assert session.readers is not None
    lent = store.connect()
    for connection in (session.writer.connection, *session.readers._calm, lent):
        assert connection.execute("pragma wal_autocheckpoint").fetchone() == (0,)
    lent.close()


def test_a_checkpoint_moves_the_whole_log_and_the_log_is_used_again(store: SqliteStore) -> None:
    store.write(add(*(f"{n}" for n in range(200))))
    frames, moved = checkpointer(store).run_once() or (0, -1)
    assert frames == moved > 0
    store.write(add("after"))
    assert (checkpointer(store).run_once() or (999, 0))[0] < frames


def test_nobody_can_write_while_the_log_is_moved(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[str] = []
    stranger = sqlite3.connect(path, timeout=0, isolation_level=None)

    class Spy:
        def execute(self, text: str) -> sqlite3.Cursor:
            try:
                stranger.execute("begin immediate")
            except sqlite3.OperationalError as error:
                outcomes.append(error.sqlite_errorname)
            return mover.execute(text)

    mover = checkpointer(store)._mover
    monkeypatch.setattr(checkpointer(store), "_mover", Spy())
    checkpointer(store).run_once()
    assert outcomes == ["SQLITE_BUSY"]
    stranger.close()


def test_a_checkpoint_gives_way_to_another_processs_lock(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_PATIENCE", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    assert checkpointer(store).run_once() is None
    other.close()
    assert checkpointer(store).run_once() is not None


def test_a_quiet_moment_moves_even_a_small_log(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "QUIET", 0.01)
    ran = _count_runs(store, monkeypatch)
    store.write(add("a"))
    assert ran.acquire(timeout=SOON)


def test_many_changes_move_the_log_without_a_quiet_moment(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "QUIET", 3600.0)
    ran = _count_runs(store, monkeypatch)
    store.write(add(*(f"{n}" for n in range(6_000))))
    assert ran.acquire(timeout=SOON)


def _count_runs(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    ran, really = threading.Semaphore(0), checkpointer(store).run_once

    def run_once() -> tuple[int, int] | None:
        done = really()
        ran.release()
        return done

    monkeypatch.setattr(checkpointer(store), "run_once", run_once)
    store.write(add("first"))
    checkpointer(store)._full.set()
    assert ran.acquire(timeout=SOON)
    return ran


def test_the_log_stays_small_under_steady_writing(store: SqliteStore, path: Path) -> None:
    for n in range(3_000):
        store.write(add(f"{n}", single=True))
    assert path.with_name("jobs.db-wal").stat().st_size < 4096 * 1024 * 6
    assert len(store.read(TEXTS)) == 3_000


def test_writers_wait_for_a_checkpoint_and_go_on(store: SqliteStore) -> None:
    with store._combiner.exclusive():
        thread = threading.Thread(target=store.write, args=(Op(add("a").run, patience=0),))
        thread.start()
        time.sleep(0.01)
    thread.join(SOON)
    assert store.read(TEXTS) == ["a"]


def test_closing_during_writes_loses_nothing(path: Path) -> None:
    store = prepare(SqliteStore(path))
    store.write(add("a"))
    store.close()
    again = SqliteStore(path)
    assert again.read(TEXTS) == ["a"]
    with pytest.raises(StorageBusy):
        _hold_and_write(again, path)
    again.close()


def _hold_and_write(store: SqliteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    try:
        store.write(Op(add("b").run, patience=0))
    finally:
        other.close()
