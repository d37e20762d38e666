"""A call without connection= while its caller holds the file's write lock: an error that says so, without a wait."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import holdfast
from holdfast.errors import SelfLocked, StorageBusy
from holdfast.storage.sqlite import holder, store, work
from tests.patience import SOON
from tests.storage import lenders
from tests.storage.test_foreign_django import ALIAS, connections, in_sqlite, transaction

Holding: TypeAlias = Callable[[str], AbstractContextManager[Any]]


@pytest.fixture(params=["opened before", "never opened"])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    """An app that would wait for a lock for ten minutes."""
    monkeypatch.setattr(work, "PATIENCE", 600.0)
    monkeypatch.setattr(store, "PATIENCE", 600.0)
    app = holdfast.App(str(tmp_path / "shop.db"))
    app.task(name="receipt")(lambda: None)
    if request.param == "opened before":
        app.migrate()
    yield app
    app.close()


@contextmanager
def by_sqlite3(path: str) -> Iterator[sqlite3.Connection]:
    with lenders.lend_sqlite3(path) as connection:
        connection.execute("begin immediate")
        yield connection
        connection.rollback()


@contextmanager
def by_a_session(path: str) -> Iterator[Session]:
    engine = sqlalchemy.create_engine(lenders.sqlalchemy_url(path))
    with Session(engine) as session:
        session.execute(sqlalchemy.text("create table orders (item text)"))
        session.execute(sqlalchemy.text("insert into orders values ('cup')"))
        yield session
        session.rollback()
    engine.dispose()


@contextmanager
def by_an_engine(path: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(lenders.sqlalchemy_url(path))
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("create table orders (item text)"))
        connection.execute(sqlalchemy.text("insert into orders values ('cup')"))
        yield connection
        connection.rollback()
    engine.dispose()


@contextmanager
def by_django(path: str) -> Iterator[None]:
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: in_sqlite(path)})[ALIAS]
    try:
        with transaction.atomic(using=ALIAS):
            connections[ALIAS].cursor().execute("create table orders (item text)")
            yield
            transaction.set_rollback(True, using=ALIAS)
    finally:
        connections[ALIAS].close()
        del connections[ALIAS], connections.settings[ALIAS]


@pytest.mark.parametrize("holding", [by_sqlite3, by_a_session, by_an_engine, by_django])
def test_a_forgotten_connection_is_refused_at_once(app: holdfast.App, holding: Holding) -> None:
    task = app.tasks["receipt"]
    with holding(app.config.store) as mine:
        with pytest.raises(SelfLocked, match=r"connection=.*app\.within"):
            task.enqueue()
        assert mine is mine
    task.enqueue()
    assert len(app.jobs.find()) == 1


def test_a_connection_that_only_an_object_holds_is_found(app: holdfast.App) -> None:
    class Orders:
        def __init__(self) -> None:
            self.db = sqlite3.connect(app.config.store, isolation_level=None, check_same_thread=False)

        def place(self) -> None:
            self.db.execute("begin immediate")
            app.tasks["receipt"].enqueue()

    orders = Orders()
    with pytest.raises(SelfLocked):
        orders.place()
    orders.db.close()


def test_reading_past_ones_own_transaction_on_a_file_that_was_never_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 600.0)
    app = holdfast.App(str(tmp_path / "shop.db"))
    with by_sqlite3(app.config.store), pytest.raises(SelfLocked):
        app.jobs.find()
    assert app.jobs.find() == []
    app.close()


@asynccontextmanager
async def by_aiosqlite(path: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(path) as connection:
        await connection.execute("begin immediate")
        yield connection
        await connection.rollback()


@asynccontextmanager
async def by_an_async_session(path: str) -> AsyncIterator[Any]:
    engine = create_async_engine(lenders.sqlalchemy_url(path, "aiosqlite"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await session.execute(sqlalchemy.text("create table orders (item text)"))
        await session.execute(sqlalchemy.text("insert into orders values ('cup')"))
        yield session
        await session.rollback()
    await engine.dispose()


@pytest.mark.parametrize("holding", [by_aiosqlite, by_an_async_session])
def test_a_task_that_forgets_its_connection_is_refused_at_once(app: holdfast.App, holding: Any) -> None:
    async def main() -> None:
        async with holding(app.config.store) as mine:
            with pytest.raises(SelfLocked):
                await app.tasks["receipt"].aenqueue()
            assert mine is mine
        await app.tasks["receipt"].aenqueue()

    asyncio.run(main())
    assert len(app.jobs.find()) == 1


def test_another_tasks_transaction_is_waited_for_even_before_the_first_use(app: holdfast.App) -> None:
    async def other(begun: asyncio.Event, finish: asyncio.Event) -> None:
        async with by_an_async_session(app.config.store):
            begun.set()
            await finish.wait()

    async def main() -> int:
        begun, finish = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(other(begun, finish))
        await begun.wait()
        waiting = [asyncio.create_task(app.tasks["receipt"].aenqueue()), asyncio.create_task(app.jobs.afind())]
        await asyncio.wait(waiting, timeout=3 * work.SUSPICIOUS)
        finish.set()
        async with asyncio.timeout(SOON):
            await asyncio.gather(holder, *waiting)
        return len(await app.jobs.afind())

    assert asyncio.run(main()) == 1


def test_another_threads_transaction_is_waited_for(app: holdfast.App) -> None:
    begun, finish = threading.Event(), threading.Event()

    def hold() -> None:
        # A pool's connection, which any thread may use: whose it is can only be told by who has it at hand.
        with lenders.lend_sqlite3(app.config.store, check_same_thread=False, isolation_level=None) as connection:
            connection.execute("begin immediate")
            begun.set()
            finish.wait(SOON)
            connection.execute("rollback")

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait(SOON)
    timer = threading.Timer(3 * work.SUSPICIOUS, finish.set)
    timer.start()
    # A transaction of the caller's own that has not written is not in the way.
    with lenders.lend_sqlite3(app.config.store, isolation_level=None) as mine:
        mine.execute("begin")
        app.tasks["receipt"].enqueue()
    holder.join(SOON)
    assert len(app.jobs.find()) == 1


def test_another_threads_transaction_that_ends_during_the_look_for_the_holder_is_not_taken_for_the_callers(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lenders.lend_sqlite3(app.config.store, check_same_thread=False, isolation_level=None) as other:
        other.execute("begin immediate")

        def looked() -> list[Any]:
            other.rollback()
            return gc.get_objects()

        monkeypatch.setattr(holder, "gc", SimpleNamespace(get_objects=looked))
        with lenders.lend_sqlite3(app.config.store, isolation_level=None) as mine:
            mine.execute("begin")
            assert not holder.caller_holds_lock(app.config.store, blocks=True)


def test_where_it_can_only_be_guessed_the_message_names_cause_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "PATIENCE", 0.01)
    app = holdfast.App(str(tmp_path / "shop.db"))
    app.task(name="receipt")(lambda: None)
    app.migrate()
    hidden = [sqlite3.connect(app.config.store, isolation_level=None, check_same_thread=False)]
    hidden[0].execute("begin immediate")
    with pytest.raises(StorageBusy, match=r"of your own, pass it as connection=.*app\.within") as raised:
        app.tasks["receipt"].enqueue()
    assert not isinstance(raised.value, SelfLocked)
    hidden[0].close()
    app.close()
