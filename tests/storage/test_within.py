"""`with app.within(connection):` joins everything that is enqueued inside to the caller's transaction."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import ConfigError, NotInTransaction, SelfLocked
from tests.acceptance.conftest import url_of
from tests.patience import SOON
from tests.storage import lenders
from tests.storage.lenders import Lender
from tests.storage.test_foreign import name_of
from tests.storage.test_foreign_django import ALIAS, connections, in_postgres, in_sqlite, transaction

BLOCKING = [
    *(pytest.param("sqlite", lender, id=f"sqlite-{name_of(lender)}") for lender in lenders.BLOCKING_SQLITE),
    *(pytest.param("postgres", lender, id=f"postgres-{name_of(lender)}") for lender in lenders.BLOCKING_POSTGRES),
]
AWAITING = [
    *(pytest.param("sqlite", lender, id=f"sqlite-{name_of(lender)}") for lender in lenders.AWAITING_SQLITE),
    *(pytest.param("postgres", lender, id=f"postgres-{name_of(lender)}") for lender in lenders.AWAITING_POSTGRES),
]


class Shop:
    """An app with a task and an outbox, and a job that takes signals."""

    def __init__(self, app: holdfast.App, where: str) -> None:
        self.app = app
        self.where = where
        self.task = app.task(name="receipt")(lambda n=0: n)
        app.declare_destination("cloud")
        app.migrate()
        self.waiting = self.task.options(delay=3600).enqueue()

    def enqueue_all(self) -> None:
        self.task.enqueue(1)
        self.app.enqueue_many([self.task.job(2), self.task.job(3)])
        with self.app.flow("pair") as flow:
            flow.add(self.task.job(4))
        self.app.outbox("cloud").put("a")
        self.app.outbox("cloud").put_many(["b"])
        self.app.scoped("acme").outbox("cloud").put("c", key="k")
        self.app.signal(self.waiting, "go")

    async def aenqueue_all(self) -> None:
        await self.task.aenqueue(1)
        await self.app.aenqueue_many([self.task.job(2), self.task.job(3)])
        async with self.app.flow("pair") as flow:
            flow.add(self.task.job(4))
        await self.app.outbox("cloud").aput("a")
        await self.app.outbox("cloud").aput_many(["b"])
        await self.app.scoped("acme").outbox("cloud").aput("c", key="k")
        await self.app.asignal(self.waiting, "go")

    def found(self) -> tuple[int, int, int]:
        """Jobs, flows and signals."""
        jobs = len(self.app.jobs.find()) - 1
        return jobs, len(self.app.flows.find()), len(self.app.signals.received(self.waiting))


ALL = (7, 1, 1)
NOTHING = (0, 0, 0)


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path, backend: str) -> Iterator[Shop]:
    if backend == "sqlite":
        where = store = str(tmp_path / "jobs.db")
    else:
        where = request.getfixturevalue("postgres_dsn")
        store = url_of(where)
    app = holdfast.App(store)
    shop = Shop(app, where)
    if lender_reads_notes(request):
        note(where, backend)
    yield shop
    app.close()


def lender_reads_notes(request: pytest.FixtureRequest) -> bool:
    return "engine_begin" in request.node.name


def note(where: str, backend: str) -> None:
    def create(connection: Any) -> None:
        connection.execute("create table note (name text)")

    (lenders.through_sqlite3 if backend == "sqlite" else lenders.through_psycopg)(where, create, True)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("backend", "lender"), BLOCKING)
def test_everything_enqueued_inside_follows_the_callers_transaction(shop: Shop, lender: Lender, commit: bool) -> None:
    def enqueue(connection: Any) -> None:
        with shop.app.within(connection) as same:
            assert same is connection
            shop.enqueue_all()

    lender(shop.where, enqueue, commit)
    assert shop.found() == (ALL if commit else NOTHING)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("backend", "lender"), AWAITING)
def test_everything_awaited_inside_follows_the_callers_transaction(shop: Shop, lender: Lender, commit: bool) -> None:
    async def enqueue(connection: Any) -> None:
        async with shop.app.within(connection):
            await shop.aenqueue_all()

    lender(shop.where, enqueue, commit)
    assert shop.found() == (ALL if commit else NOTHING)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_django_joins_too(shop: Shop, backend: str) -> None:
    where = in_sqlite(shop.where) if backend == "sqlite" else in_postgres(shop.where)
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: where})[ALIAS]
    try:
        for rollback in (True, False):
            with transaction.atomic(using=ALIAS), shop.app.within(connections[ALIAS]):
                shop.enqueue_all()
                transaction.set_rollback(rollback, using=ALIAS)
            assert shop.found() == (NOTHING if rollback else ALL)
    finally:
        connections[ALIAS].close()
        del connections[ALIAS], connections.settings[ALIAS]


def test_outside_the_block_transactions_are_holdfasts_own(shop: Shop) -> None:
    def enqueue(connection: Any) -> None:
        with shop.app.within(connection):
            shop.task.enqueue(1)
        connection.rollback()
        shop.task.enqueue(2)

    lenders.through_sqlite3(shop.where, enqueue, False)
    assert shop.found()[0] == 1


def test_the_innermost_block_and_then_connection_wins(shop: Shop) -> None:
    with (
        lenders.lend_sqlite3(shop.where, isolation_level=None) as outer,
        lenders.lend_sqlite3(shop.where, isolation_level=None) as inner,
    ):
        with shop.app.within(outer):
            with shop.app.within(inner):
                inner.execute("begin immediate")
                shop.task.enqueue(1)
                inner.execute("rollback")
                outer.execute("begin immediate")
                shop.task.options(connection=outer).enqueue(2)
                outer.execute("rollback")
                with shop.app.within(None):
                    shop.task.enqueue(3)
            outer.execute("begin immediate")
            shop.task.enqueue(4)
            outer.execute("rollback")
    assert shop.found()[0] == 1


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_an_inner_session_takes_its_own_jobs_with_it(shop: Shop) -> None:
    def outer(first: Any) -> None:
        def inner(second: Any) -> None:
            with shop.app.within(second):
                shop.task.enqueue(1)

        with shop.app.within(first):
            lenders.through_session(shop.where, inner, False)
            shop.task.enqueue(2)

    lenders.through_session(shop.where, outer, True)
    assert [job.payload for job in shop.app.jobs.find() if job.id != shop.waiting.id] == ['{"n":2}']


def test_an_inner_session_that_would_wait_for_the_outer_one_is_refused(shop: Shop) -> None:
    def outer(first: Any) -> None:
        def inner(second: Any) -> None:
            with shop.app.within(second), pytest.raises(SelfLocked, match="commit the other one first"):
                shop.task.enqueue(1)

        with shop.app.within(first):
            shop.task.enqueue(2)
            lenders.through_session(shop.where, inner, False)

    lenders.through_session(shop.where, outer, True)
    assert shop.found()[0] == 1


def test_a_block_is_for_the_app_it_was_entered_on(shop: Shop, tmp_path: Path) -> None:
    other = holdfast.App(str(tmp_path / "other.db"))
    task = other.task(name="elsewhere")(lambda: None)

    def enqueue(connection: Any) -> None:
        with shop.app.within(connection), other.within(None):
            task.enqueue()
            shop.task.enqueue()

    lenders.through_sqlite3(shop.where, enqueue, False)
    assert (shop.found()[0], len(other.jobs.find())) == (0, 1)
    other.close()


def test_what_is_no_connection_is_refused_when_the_block_is_made(shop: Shop) -> None:
    with pytest.raises(TypeError, match="builtins.str"):
        shop.app.within("session")


def test_a_connection_without_a_transaction_is_refused_inside_the_block(shop: Shop) -> None:
    with lenders.lend_sqlite3(shop.where) as connection, shop.app.within(connection):
        with pytest.raises(NotInTransaction):
            shop.task.enqueue()


def test_a_blocking_call_in_the_block_of_an_awaited_connection_says_what_to_use(shop: Shop) -> None:
    async def enqueue(connection: Any) -> None:
        with shop.app.within(connection), pytest.raises(TypeError, match="aenqueue"):
            shop.task.enqueue()

    lenders.through_aiosqlite(shop.where, enqueue, False)


def test_an_app_that_is_closed_inside_the_block_enqueues_nothing_outside_the_transaction(shop: Shop) -> None:
    def enqueue(connection: Any) -> None:
        with shop.app.within(connection):
            shop.app.close()
            with pytest.raises(ConfigError, match="closed inside"):
                shop.task.enqueue(1)
            with shop.app.within(None):
                shop.task.options(connection=connection).enqueue(2)

    lenders.through_sqlite3(shop.where, enqueue, False)
    assert shop.found()[0] == 0


def test_a_block_is_entered_once(shop: Shop) -> None:
    with lenders.lend_sqlite3(shop.where) as connection:
        block = shop.app.within(connection)
        with block, suppress(ConfigError), block:
            pytest.fail("entered twice")


def test_a_task_that_is_started_inside_joins_and_a_plain_thread_does_not(shop: Shop) -> None:
    def aside() -> None:
        thread = threading.Thread(target=shop.task.enqueue, args=(1,))
        thread.start()
        thread.join(SOON)

    async def enqueue(connection: Any) -> None:
        async with shop.app.within(connection):
            aside()
            await asyncio.create_task(shop.task.aenqueue(2))

    lenders.through_async_session("aiosqlite")(shop.where, enqueue, False)
    assert [job.payload for job in shop.app.jobs.find() if job.id != shop.waiting.id] == ['{"n":1}']


def test_a_task_that_outlives_the_block_is_refused_and_may_ask_for_a_transaction_of_its_own(shop: Shop) -> None:
    async def late(ended: asyncio.Event) -> None:
        await ended.wait()
        with pytest.raises(NotInTransaction, match="has ended"):
            await shop.task.aenqueue(1)
        with shop.app.within(None):
            await shop.task.aenqueue(2)

    async def enqueue(connection: Any) -> None:
        ended = asyncio.Event()
        async with shop.app.within(connection):
            task = asyncio.create_task(late(ended))
        await connection.rollback()
        ended.set()
        await task

    lenders.through_aiosqlite(shop.where, enqueue, False)
    assert shop.found()[0] == 1


def test_a_block_that_is_left_in_another_context_says_that_nothing_has_joined_it(shop: Shop) -> None:
    with lenders.lend_sqlite3(shop.where) as connection:
        block = shop.app.within(connection)
        contextvars.copy_context().run(block.__enter__)
        with pytest.raises(ConfigError, match="async dependency"):
            block.__exit__(None, None, None)


def test_a_handler_is_not_inside_the_block_in_which_its_worker_runs(shop: Shop) -> None:
    @shop.app.task(name="parent")
    async def parent() -> str:
        return (await shop.task.aenqueue(9)).id

    async def enqueue(connection: Any) -> str:
        job = await parent.aenqueue()
        await connection.rollback()
        with shop.app.within(connection):
            async with shop.app.worker():
                return await job.aresult(SOON)

    child: list[str] = []

    async def run(connection: Any) -> None:
        child.append(await enqueue(connection))

    lenders.through_aiosqlite(shop.where, run, False)
    assert shop.app.jobs.get(child[0]) is not None
