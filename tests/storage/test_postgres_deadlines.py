"""A server that stands still, and a table that another session has locked: every call ends, and everything heals."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.errors import OutcomeUnknown, StorageBusy, StorageError, StorageUnavailable
from holdfast.model.remote import Done
from holdfast.storage.port import Op, Tx
from holdfast.storage.postgres import PostgresStore, runner
from tests.patience import SOON
from tests.postgres_server import PostgresServer, private_server, url_of
from tests.storage import kit

LIMIT = 2.0
IN_TIME = LIMIT + 10.0
"""Seconds in which a call must have ended, also on a machine that stands still for a while."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with private_server() as started:
        with psycopg.connect(started.dsn) as connection:
            connection.execute(kit.TABLE)
        yield started


@pytest.fixture
def store(server: PostgresServer) -> Iterator[PostgresStore]:
    opened = PostgresStore(server.dsn, limit=LIMIT)
    opened.migrate()
    with psycopg.connect(server.dsn) as connection:
        connection.execute("delete from note")
    yield opened
    opened.close()


@pytest.fixture
def app(server: PostgresServer) -> Iterator[holdfast.App]:
    opened = holdfast.App(url_of(server.dsn), store_timeout=LIMIT)
    opened.migrate()
    opened.task(name="greet")(greet)
    yield opened
    opened.close()


def greet(who: str) -> str:
    return f"Hello {who}"


def refused_in_time(call: Callable[[], object], allowed: float = IN_TIME) -> StorageError:
    """The error of a call that must fail in time."""
    began = time.monotonic()
    with pytest.raises(StorageError) as failed:
        call()
    assert time.monotonic() - began < allowed
    assert isinstance(failed.value, (StorageUnavailable, StorageBusy, OutcomeUnknown))
    return failed.value


def refused_at_the_table(call: Callable[[], object]) -> StorageError:
    """The error of a call that had a connection: on a busy machine a new one may take longer than the limit."""
    while "no connection was free" in str(error := refused_in_time(call)):
        pass
    return error


class Colours:
    """The same calls from a thread and from a task of one event loop, whose connections are open already."""

    def __init__(self, store: PostgresStore) -> None:
        self.runner = asyncio.Runner()
        self.calls: dict[str, Callable[[str], object]] = {
            "a statement": lambda name: store.write(kit.insert(name, single=True)),
            "a transaction": lambda name: store.write(kit.insert(name)),
            "a list": lambda name: store.write_list(kit.insert_list([name])),
            "a read": lambda name: store.read(kit.names()),
            "an awaited statement": lambda name: self.runner.run(store.awrite(kit.insert(name, single=True))),
            "an awaited transaction": lambda name: self.runner.run(store.awrite(kit.insert(name))),
            "an awaited list": lambda name: self.runner.run(store.awrite_list(kit.insert_list([name]))),
            "an awaited read": lambda name: self.runner.run(store.aread(kit.names())),
        }


@pytest.mark.parametrize("kind", [
    "a statement", "a transaction", "a list", "a read",
    "an awaited statement", "an awaited transaction", "an awaited list", "an awaited read",
])  # fmt: skip
def test_a_frozen_server_ends_a_call_and_the_next_ones(server: PostgresServer, store: PostgresStore, kind: str) -> None:
    colours = Colours(store)
    call = colours.calls[kind]
    call("before")
    with server.frozen():
        first = refused_in_time(lambda: call("frozen"))
        assert f"{LIMIT:g} s" in str(first)
        # On no pooled connection: this one fails to open another.
        assert type(refused_in_time(lambda: call("frozen too"))) is StorageUnavailable
    written = set(store.read(kit.names()))
    if "read" not in kind:
        assert written - {"frozen"} == {"before"}, "a call that was refused for certain wrote nothing"
        assert "frozen" not in written or isinstance(first, OutcomeUnknown)
        call("after")
        assert "after" in store.read(kit.names())
    colours.runner.close()


@pytest.mark.parametrize("kind", ["a statement", "a transaction", "a list", "a read"])
@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_no_call_to_a_frozen_server_takes_longer_than_its_time_out(
    server: PostgresServer, kind: str, awaited: bool
) -> None:
    """The quickest of four counts: any of them may be held up by a busy machine."""
    quickest, limit = 60.0, 1.0
    for n in range(4):
        store = PostgresStore(server.dsn, limit=limit)
        colours = Colours(store)
        call = colours.calls[kind.replace("a ", "an awaited ") if awaited else kind]
        call(f"before {kind} {awaited} {n}")
        with server.frozen():
            began = time.monotonic()
            refused_in_time(lambda call=call, n=n: call(f"{kind} {awaited} {n}"))  # type: ignore[misc]
            quickest = min(quickest, time.monotonic() - began)
        colours.runner.close()
        store.close()
        if quickest < limit * 1.1:
            break
    assert quickest < limit * 1.1


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_enqueues_claims_heartbeats_and_results_end_on_a_frozen_server(
    server: PostgresServer, app: holdfast.App, awaited: bool
) -> None:
    task, remote = app.tasks["greet"], app.remote
    app.enqueue_many([task.job(str(n)) for n in range(4)])
    me = remote.register("w", queues=["default"], tasks=["greet"], concurrency=4, lease=300)
    (held,) = remote.claim(me.worker, limit=1)
    blocking: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: task.enqueue("Ada"),
        "enqueue_many": lambda: app.enqueue_many([task.job("Bob")]),
        "claim": lambda: remote.claim(me.worker),
        "beat": lambda: remote.beat(me.worker),
        "finish": lambda: remote.finish(held.handle, Done("Hello")),
    }
    awaiting: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: task.aenqueue("Ada"),
        "enqueue_many": lambda: app.aenqueue_many([task.job("Bob")]),
        "claim": lambda: remote.aclaim(me.worker),
        "beat": lambda: remote.abeat(me.worker),
        "finish": lambda: remote.afinish(held.handle, Done("Hello")),
    }
    before = len(app.jobs.find())
    with asyncio.Runner() as runner:
        for name in blocking:
            # On a connection that is open: to connect has a limit of its own.
            runner.run(app.jobs.acounts()) if awaited else app.jobs.counts()
            call = (lambda name=name: runner.run(awaiting[name]())) if awaited else blocking[name]  # type: ignore[misc]
            with server.frozen():
                error = refused_in_time(call)
            may_be_written = isinstance(error, OutcomeUnknown)
            assert isinstance(error, StorageUnavailable) or may_be_written, name
            if name == "enqueue":
                assert len(app.jobs.find()) - before in ((0, 1) if may_be_written else (0,))
        assert remote.finish(held.handle, Done("Hello")).state == "succeeded"


def test_a_server_that_freezes_at_commit_leaves_the_outcome_unknown(
    server: PostgresServer, store: PostgresStore
) -> None:
    is_frozen, may_commit = threading.Event(), threading.Event()

    async def wait_before_commit(tx: Tx) -> None:
        await tx.one(kit.INSERT, name="a")
        is_frozen.set()
        assert may_commit.wait(SOON)

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(store.write, Op(wait_before_commit))
        assert is_frozen.wait(SOON)
        with server.frozen():
            may_commit.set()
            with pytest.raises(OutcomeUnknown, match="may have been committed"):
                writing.result(SOON)
    assert store.read(kit.names()) in ([], ["a"])


def test_a_server_that_freezes_at_the_end_of_a_read_leaves_nothing_unknown(
    server: PostgresServer, store: PostgresStore
) -> None:
    is_frozen, may_end = threading.Event(), threading.Event()

    async def wait_before_end(tx: Tx) -> None:
        await tx.all(kit.NAMES)
        is_frozen.set()
        assert may_end.wait(SOON)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(store.read, Op(wait_before_end))
        assert is_frozen.wait(SOON)
        with server.frozen():
            may_end.set()
            with pytest.raises(StorageUnavailable):
                reading.result(SOON)


def test_everybody_whose_write_was_merged_is_released(server: PostgresServer, store: PostgresStore) -> None:
    store.write_list(kit.insert_list(["before"]))
    names = [f"n{n}" for n in range(40)]

    def insert(name: str) -> bool:
        try:
            return store.write_list(kit.insert_list([name])) == [True]
        except (StorageUnavailable, StorageBusy):
            return False
        except OutcomeUnknown:
            return name in store.read(kit.names())

    with ThreadPoolExecutor(len(names)) as threads:
        with server.frozen():
            began = time.monotonic()
            refused = [threads.submit(store.write_list, kit.insert_list([name])) for name in names]
            errors = [one.exception(SOON) for one in refused]
            assert time.monotonic() - began < IN_TIME
        assert {type(error) for error in errors} <= {StorageUnavailable, StorageBusy, OutcomeUnknown}
        certain = {name for name, error in zip(names, errors, strict=True) if not isinstance(error, OutcomeUnknown)}
        assert not certain & set(store.read(kit.names()))
        again = list(threads.map(insert, names))
    assert sorted(store.read(kit.names())) == sorted(["before", *names]), "each once, whatever became of the first try"
    assert all(ok or name not in certain for ok, name in zip(again, names, strict=True))


def test_tasks_whose_writes_were_merged_are_released(server: PostgresServer, store: PostgresStore) -> None:
    async def main() -> None:
        await store.awrite_list(kit.insert_list(["before"]))
        with server.frozen():
            began = time.monotonic()
            calls = [store.awrite_list(kit.insert_list([f"n{n}"])) for n in range(40)]
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert time.monotonic() - began < IN_TIME
        assert {type(error) for error in errors} <= {StorageUnavailable, StorageBusy, OutcomeUnknown}

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["a statement", "a transaction", "a list", "an awaited statement", "an awaited list"])
def test_a_locked_table_ends_a_call_by_name_and_writes_nothing(
    server: PostgresServer, store: PostgresStore, kind: str
) -> None:
    colours = Colours(store)
    call = colours.calls[kind]
    with psycopg.connect(server.dsn) as other:
        other.execute("lock table note in access exclusive mode")
        error = refused_at_the_table(lambda: call("locked"))
        assert type(error) is StorageBusy
        assert "insert_note" in str(error)
        (waiting,) = other.execute("select count(*) from pg_locks where not granted").fetchone() or (None,)
        assert waiting == 0, "nobody is left behind in the server, to write it later"
    assert store.read(kit.names()) == []
    call("free")
    assert store.read(kit.names()) == ["free"]
    colours.runner.close()


def test_callers_are_told_which_table_is_locked(server: PostgresServer, app: holdfast.App) -> None:
    task = app.tasks["greet"]
    task.enqueue("first")
    with psycopg.connect(server.dsn) as other:
        other.execute("lock table holdfast_job in access exclusive mode")
        assert "holdfast_job" in str(refused_at_the_table(lambda: task.enqueue("Ada")))
        assert "holdfast_job" in str(refused_at_the_table(lambda: app.enqueue_many([task.job("Ada"), task.job("Bob")])))
        assert "holdfast_job" in str(refused_at_the_table(lambda: app.jobs.find()))

        async def awaited() -> None:
            await task.aenqueue("Ada")

        assert "holdfast_job" in str(refused_at_the_table(lambda: asyncio.run(awaited())))
    assert task.enqueue("Ada").status().state == "ready"


def test_a_statement_that_makes_progress_is_not_ended_by_the_limit_of_one(store: PostgresStore) -> None:
    pause = kit.Statement("pause", "", "select pg_sleep(0.6)")

    async def many(tx: Tx) -> int:
        for _ in range(5):
            await tx.one(pause)
        return 5

    assert store.read(Op(many)) == 5


def test_a_slow_operation_has_a_limit_of_its_own(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = kit.Statement("pause", "", "select pg_sleep(4)")

    async def run(tx: Tx) -> bool:
        return await tx.one(pause) is not None

    assert store.read(Op(run, slow=True))
    with pytest.raises(StorageBusy, match="pause was cancelled after 2 s"):
        store.read(Op(run))
    monkeypatch.setattr(runner, "SLOW", 0.0)
    with pytest.raises(StorageBusy, match="pause was cancelled after 2 s"):
        store.read(Op(run, slow=True))


def test_migrations_and_descriptions_of_a_frozen_server_end(server: PostgresServer, store: PostgresStore) -> None:
    store.describe()
    with server.frozen():
        refused_in_time(store.migrate)
        refused_in_time(store.describe)
    assert store.migrate() == []


def test_who_listens_hears_again_after_a_freeze(server: PostgresServer, store: PostgresStore) -> None:
    other = PostgresStore(server.dsn, limit=LIMIT)
    ear = other.wakeups.listen(["queue:a"])
    store.write(kit.insert("before"))
    assert ear.wait(SOON)
    with server.frozen():
        refused_in_time(lambda: store.write(kit.insert("frozen")))
    deadline = time.monotonic() + SOON
    name = 0
    while True:
        store.write(kit.insert(f"after {(name := name + 1)}"))
        if ear.wait(1.0):
            break
        assert time.monotonic() < deadline
    ear.close()
    other.close()


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "soon"])
def test_a_limit_that_cannot_be_is_refused_by_the_name_of_its_variable(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE_TIMEOUT", wrong)
    with pytest.raises(holdfast.errors.ConfigError, match="HOLDFAST_STORE_TIMEOUT: store_timeout is"):
        holdfast.App("postgresql://localhost/shop").open()
