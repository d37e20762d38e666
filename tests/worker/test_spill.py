"""Jobs that the store cannot take are kept in files, and come in when it can."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client.spill import AWAY, Spill
from holdfast.errors import StorageBusy, StorageUnavailable
from holdfast.storage.port import Store

Away = Callable[[], None]


class Moody:
    """An app whose store may be away."""

    def __init__(self, folder: Path) -> None:
        self.app = holdfast.App(folder / "jobs.db", spill=str(folder / "spill"))
        self.app.migrate()
        self.task = self.app.declare("work")
        self._open = self.app.open
        spill = self.app._enqueuer.spill
        assert spill is not None
        self.spill: Spill = spill
        # The thread that tries again is not waited for in tests.
        self.spill._try_later = lambda: None  # type: ignore[method-assign]
        self.is_away = False
        self.app._enqueuer._store = self.spill._store = self.store

    def store(self) -> Store:
        if self.is_away:
            raise StorageUnavailable("nobody there")
        return self._open()

    def stored(self) -> list[str]:
        return sorted(job.id for job in self.app.jobs.find())


@pytest.fixture
def moody(tmp_path: Path) -> Iterator[Moody]:
    it = Moody(tmp_path)
    yield it
    it.app.close()


def test_a_job_is_kept_while_the_store_is_away_and_stored_when_it_is_back(moody: Moody) -> None:
    moody.is_away = True
    job = moody.task.options(delay=60, priority=5, tags=["a"]).enqueue(n=1)
    assert job.created
    assert len(moody.spill.waiting()) == 1

    moody.is_away = False
    assert moody.spill.replay() == 1

    record = moody.app.jobs.get(job.id)
    assert (record.task, record.priority, record.payload, record.reason) == ("work", 5, '{"n":1}', "delay")
    assert moody.spill.waiting() == []


def test_what_is_kept_can_be_read_by_its_owner_alone(moody: Moody) -> None:
    """The files have the arguments of jobs, and the folder may be anywhere."""
    folder = moody.spill.folder
    before = os.umask(0o022)
    try:
        moody.is_away = True
        moody.task.enqueue()
        (kept,) = moody.spill.waiting()
        kept.with_name("0.json").write_text("nonsense", "utf-8")
        moody.is_away = False
        moody.spill.replay()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    written = {name: mode for name, mode in modes.items() if name != "0.json"}
    assert written == {folder.name: 0o700, "bad": 0o700, ".lock": 0o600, "0.txt": 0o600}
    moody.is_away = True
    moody.task.enqueue()
    assert [stat.S_IMODE(path.stat().st_mode) for path in moody.spill.waiting()] == [0o600]


def test_what_was_kept_comes_before_what_is_enqueued_later(moody: Moody) -> None:
    moody.is_away = True
    early = [moody.task.enqueue(n=n).id for n in range(3)]
    moody.is_away = False
    late = moody.task.enqueue(n=3).id

    assert [job.id for job in sorted(moody.app.jobs.find(), key=lambda job: (job.rank, job.id))] == [*early, late]
    assert moody.spill.waiting() == []


def test_the_awaiting_call_keeps_it_too_and_many_at_once(moody: Moody) -> None:
    moody.is_away = True
    one = asyncio.run(moody.task.aenqueue(n=1))
    many = moody.app.enqueue_many([moody.task.job(n=n) for n in range(5)])
    assert len(moody.spill.waiting()) == 2
    moody.is_away = False
    assert moody.spill.replay() == 6
    assert moody.stored() == sorted([one.id, *(job.id for job in many)])


def test_what_is_kept_during_a_replay_comes_in_with_it(moody: Moody) -> None:
    moody.is_away = True
    jobs = [moody.task.enqueue(n=1)]
    moody.is_away = False

    def interrupted() -> Store:
        if len(jobs) < 3:
            jobs.append(asyncio.run(moody.task.aenqueue(n=2)))
        return moody.store()

    moody.spill._store = interrupted
    assert moody.spill.replay() == 3
    assert moody.stored() == sorted(job.id for job in jobs)
    assert moody.spill.waiting() == []


def test_a_thread_that_has_nothing_left_to_try_is_not_taken_for_one_that_tries(moody: Moody) -> None:
    moody.spill._thread = threading.current_thread()
    moody.spill._try_until_done()
    assert moody.spill._thread is None


def test_a_job_is_kept_though_the_system_has_no_thread_to_try_again(
    moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    del moody.spill._try_later
    moody.is_away = True
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert moody.task.enqueue(n=1).created
    assert len(moody.spill.waiting()) == 1


def test_a_file_that_cannot_be_read_is_put_aside_and_the_others_go_on(moody: Moody) -> None:
    moody.is_away = True
    first = moody.task.enqueue(n=1)
    broken = moody.spill.folder / f"{moody.spill.waiting()[0].stem}-later.json"
    broken.write_text('{"jobs": [{"id": "half')
    last = moody.task.enqueue(n=2)
    moody.is_away = False

    assert moody.spill.replay() == 2
    assert moody.stored() == sorted([first.id, last.id])
    (aside,) = moody.spill.bad()
    assert aside.name == broken.name
    assert "DecodeError" in aside.with_suffix(".txt").read_text()


def test_a_job_that_the_store_refuses_is_put_aside_with_the_reason(moody: Moody) -> None:
    moody.is_away = True
    moody.task.options(queue="closed").enqueue(n=1)
    kept = moody.task.enqueue(n=2)
    moody.is_away = False
    moody.app.queues.disable("closed")

    assert moody.spill.replay() == 1
    assert moody.stored() == [kept.id]
    assert "QueueClosed" in moody.spill.bad()[0].with_suffix(".txt").read_text()


def test_the_first_failure_of_the_store_ends_the_replay_and_keeps_the_rest(moody: Moody) -> None:
    moody.is_away = True
    for n in range(3):
        moody.task.enqueue(n=n)
    calls = iter([None, StorageBusy("locked")])

    def flickering() -> Store:
        if (failure := next(calls)) is not None:
            raise failure
        return moody._open()

    moody.spill._store = flickering
    with pytest.raises(AWAY):
        moody.spill.replay()
    assert (len(moody.spill.waiting()), len(moody.stored())) == (2, 1)


def test_a_replay_that_is_repeated_after_an_unknown_end_stores_nothing_twice(moody: Moody) -> None:
    moody.is_away = True
    moody.task.enqueue(n=1)
    (file,) = moody.spill.waiting()
    content = file.read_bytes()
    moody.is_away = False
    moody.spill.replay()
    # As if the process had died between the commit and the removal of the file.
    file.write_bytes(content)
    assert moody.spill.replay() == 0
    assert len(moody.stored()) == 1
    assert moody.spill.waiting() == moody.spill.bad() == []


def test_a_file_that_another_program_has_locked_is_a_store_that_is_away(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "jobs.db", spill=str(tmp_path / "spill"))
    app.migrate()
    task = app.declare("work")
    task.enqueue(n=0)
    lock = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('begin immediate');"
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", lock, str(tmp_path / "jobs.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"locked\n"
        job = task.enqueue(n=1)
        assert len(list((tmp_path / "spill").glob("*.json"))) == 1
        stranger.communicate()
    later = task.enqueue(n=2)
    assert {found.id for found in app.jobs.find()} >= {job.id, later.id}
    app.close()


def test_without_a_spill_the_error_reaches_the_caller(tmp_path: Path) -> None:
    app = holdfast.App("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    with pytest.raises(StorageUnavailable):
        app.declare("work").enqueue(n=1)


# -- outboxes


class Cloud:
    """A destination that delivers in order, and the events that it got."""

    def __init__(self, moody: Moody, cap: int | None = 10_000) -> None:
        self.got: list[int] = []

        @moody.app.destination("cloud", ordered=True, cap=cap)
        def deliver(events: list[holdfast.model.OutboxEvent]) -> None:
            self.got += [event.data["n"] for event in events]

        self.outbox = moody.app.outbox("cloud")
        self.outbox._store = moody.store
        self._app = moody.app

    def deliver(self) -> list[int]:
        self._app.drain()
        return self.got


@pytest.mark.parametrize("key", [None, "order-7"])
def test_an_event_is_kept_while_the_store_is_away_and_delivered_in_order_when_it_is_back(
    moody: Moody, key: str | None
) -> None:
    cloud = Cloud(moody)
    moody.is_away = True
    assert cloud.outbox.put({"n": 1}, key=key) is not None
    asyncio.run(cloud.outbox.aput({"n": 2}, key=key))
    cloud.outbox.put_many([holdfast.model.Outgoing({"n": 3}, key=key), holdfast.model.Outgoing({"n": 4}, key=key)])
    assert len(moody.spill.waiting()) == 3

    moody.is_away = False
    cloud.outbox.put({"n": 5}, key=key)

    assert moody.spill.waiting() == []
    assert cloud.deliver() == [1, 2, 3, 4, 5]


def test_the_first_put_of_a_process_is_kept_too_where_the_store_cannot_be_reached(moody: Moody, tmp_path: Path) -> None:
    # Nothing listens on port 1.
    app = holdfast.App("postgresql://nobody@127.0.0.1:1/none", spill=str(tmp_path / "spill"))
    app.declare_destination("cloud")
    spill = app._enqueuer.spill
    assert spill is not None
    spill._try_later = lambda: None  # type: ignore[method-assign]

    job = app.outbox("cloud").put({"n": 1}, key="a")
    assert job is not None
    assert len(spill.waiting()) == 1
    app.close()

    assert moody.spill.replay() == 1
    assert moody.app.jobs.get(job.id).task == "outbox.cloud"


def test_an_event_in_the_callers_transaction_is_never_kept_apart_from_it(moody: Moody) -> None:
    cloud = Cloud(moody)
    connection = moody.app.connect()
    moody.is_away = True
    with pytest.raises(StorageUnavailable):
        cloud.outbox.put({"n": 1}, connection=connection)
    connection.close()
    assert moody.spill.waiting() == []


def test_a_forgotten_connection_is_the_callers_mistake_and_is_not_kept(tmp_path: Path) -> None:
    app = holdfast.App(tmp_path / "jobs.db", spill=str(tmp_path / "spill"))
    app.migrate()
    task = app.declare("work")
    own = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    own.execute("begin immediate")
    with pytest.raises(holdfast.errors.SelfLocked):
        task.enqueue(n=1)
    own.close()
    app.close()
    assert list((tmp_path / "spill").glob("*.json")) == []
