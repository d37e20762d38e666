"""The thread that watches for other processes' commits: when it starts, and how it ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.storage.sqlite import watch as module
from holdfast.storage.sqlite.notices import Notices
from holdfast.storage.sqlite.watch import Watch
from tests.patience import SOON


class SlowToStart(threading.Thread):
    """A thread that exists for a while before it runs."""

    exists = threading.Event()
    may_run = threading.Event()

    def start(self) -> None:
        self.exists.set()
        assert self.may_run.wait(SOON)
        super().start()


def test_closing_while_somebody_begins_to_wait_waits_for_the_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    watch = Watch(lambda: False, lambda: 0, Notices(None), str(tmp_path_factory.mktemp("watch") / "jobs.db-wal"))
    failures: list[BaseException] = []

    def wait() -> None:
        with watch.attended():
            pass

    def close() -> None:
        try:
            watch.close()
        except BaseException as failure:
            failures.append(failure)

    waiting, closing = threading.Thread(target=wait), threading.Thread(target=close)
    with monkeypatch.context() as patched:
        patched.setattr(module.threading, "Thread", SlowToStart)
        waiting.start()
        assert SlowToStart.exists.wait(SOON)
        closing.start()
        # Gives way to the one that closes; it must not get past the thread that does not run yet.
        closing.join(0.05)
        SlowToStart.may_run.set()
        for thread in (waiting, closing):
            thread.join(SOON)
    assert failures == []


def test_nobody_starts_it_once_it_is_closed() -> None:
    watch = Watch(lambda: False, lambda: 0, Notices(None), "jobs.db-wal")
    watch.close()
    before = threading.active_count()
    with watch.attended():
        assert threading.active_count() == before


def test_a_strangers_commit_beside_our_own_is_found_though_its_event_was_heard_with_ours(tmp_path: Path) -> None:
    log = tmp_path / "jobs.db-wal"
    log.touch()
    looks, found, ours = 0, threading.Event(), 0

    def look() -> bool:
        nonlocal looks, ours
        looks += 1
        if looks == 2:
            ours = 2  # a commit of our own ends, while the stranger waits for the disk
        if looks > 3:
            found.set()
        return looks > 3

    watch = Watch(look, lambda: ours, Notices(None), str(log))
    try:
        with watch.attended():
            while looks == 0:
                found.wait(0.001)
            log.write_bytes(b"one write, and no other when it can be seen")
            assert found.wait(SOON)
    finally:
        watch.close()
