"""Every kind of connection a caller can lend, driven alike: begin, give it away, commit or roll back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
import sqlmodel
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from sqlmodel.ext.asyncio.session import AsyncSession as SQLModelAsyncSession

Enqueue: TypeAlias = Callable[[Any], object]
AsyncEnqueue: TypeAlias = Callable[[Any], Coroutine[Any, Any, object]]
Lender: TypeAlias = Callable[[str, Any, bool], None]
"""Opens the database, calls the given function inside a transaction, then commits or rolls back."""


@contextmanager
def lend_sqlite3(where: str, **options: Any) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(where, **options)
    try:
        yield connection
    finally:
        connection.close()


def through_sqlite3(where: str, enqueue: Enqueue, commit: bool) -> None:
    with lend_sqlite3(where) as connection:
        # Whatever the caller set for itself must not reach the operation.
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        connection.execute("begin")
        enqueue(connection)
        connection.commit() if commit else connection.rollback()
        assert connection.text_factory is bytes


def through_psycopg(where: str, enqueue: Enqueue, commit: bool) -> None:
    with psycopg.connect(where, row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
        enqueue(connection)
        connection.commit() if commit else connection.rollback()


def through_psycopg_block(where: str, enqueue: Enqueue, commit: bool) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        with connection.transaction(force_rollback=not commit):
            enqueue(connection)


def through_session(where: str, enqueue: Enqueue, commit: bool) -> None:
    with _engine(where) as engine, Session(engine) as session:
        enqueue(session)
        session.commit() if commit else session.rollback()


def through_sqlmodel_session(where: str, enqueue: Enqueue, commit: bool) -> None:
    with _engine(where) as engine, sqlmodel.Session(engine) as session:
        enqueue(session)
        session.commit() if commit else session.rollback()


def through_scoped_session(where: str, enqueue: Enqueue, commit: bool) -> None:
    with _engine(where) as engine:
        session = scoped_session(sessionmaker(engine))
        enqueue(session)
        session.commit() if commit else session.rollback()
        session.remove()


def through_engine_connection(where: str, enqueue: Enqueue, commit: bool) -> None:
    with _engine(where) as engine, engine.connect() as connection:
        enqueue(connection)
        connection.commit() if commit else connection.rollback()


def through_engine_begin(where: str, enqueue: Enqueue, commit: bool) -> None:
    with _engine(where) as engine, engine.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("select name from note")
        enqueue(connection)
        if not commit:
            transaction.rollback()


def through_aiosqlite(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
    async def run() -> None:
        async with aiosqlite.connect(where) as connection:
            await connection.execute("begin")
            await enqueue(connection)
            await (connection.commit() if commit else connection.rollback())

    asyncio.run(run())


def through_async_psycopg(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(where, row_factory=dict_row) as connection:
            await enqueue(connection)
            await (connection.commit() if commit else connection.rollback())

    asyncio.run(run())


def through_asyncpg(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
    async def run() -> None:
        async with asyncpg_connection(where) as connection:
            transaction = connection.transaction()
            await transaction.start()
            await enqueue(connection)
            await (transaction.commit() if commit else transaction.rollback())

    asyncio.run(run())


def through_asyncpg_in_words(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
    async def run() -> None:
        async with asyncpg_connection(where) as connection:
            await connection.execute("begin")
            await enqueue(connection)
            await connection.execute("commit" if commit else "rollback")

    asyncio.run(run())


def through_asyncpg_pool(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
    async def run() -> None:
        async with asyncpg.create_pool(**asyncpg_options(where), min_size=1) as pool, pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await enqueue(connection)
            await (transaction.commit() if commit else transaction.rollback())

    asyncio.run(run())


def through_async_session(driver: str, kind: type[AsyncSession] = AsyncSession) -> Lender:
    def lender(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
        async def run() -> None:
            async with _async_engine(where, driver) as engine, kind(engine) as session:
                await enqueue(session)
                await (session.commit() if commit else session.rollback())

        asyncio.run(run())

    return lender


def through_async_engine_connection(driver: str) -> Lender:
    def lender(where: str, enqueue: AsyncEnqueue, commit: bool) -> None:
        async def run() -> None:
            async with _async_engine(where, driver) as engine, engine.connect() as connection:
                await enqueue(connection)
                await (connection.commit() if commit else connection.rollback())

        asyncio.run(run())

    return lender


@asynccontextmanager
async def asyncpg_connection(where: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**asyncpg_options(where))
    try:
        yield connection
    finally:
        await connection.close()


def asyncpg_options(dsn: str) -> dict[str, Any]:
    parts = conninfo_to_dict(dsn)
    return {"host": parts["host"], "port": parts.get("port"), "user": parts["user"], "database": parts["dbname"],
            "password": parts.get("password")}  # fmt: skip


@contextmanager
def _engine(where: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(where), poolclass=NullPool)
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def _async_engine(where: str, driver: str) -> AsyncIterator[Any]:
    engine = create_async_engine(sqlalchemy_url(where, driver), poolclass=NullPool)
    try:
        yield engine
    finally:
        await engine.dispose()


def sqlalchemy_url(where: str, driver: str = "") -> sqlalchemy.URL:
    if "=" not in where:
        return sqlalchemy.URL.create(f"sqlite{driver and '+' + driver}", database=where)
    parts = {name: str(value) for name, value in conninfo_to_dict(where).items()}
    query = {"host": parts["host"]} if parts["host"].startswith("/") else {}
    return sqlalchemy.URL.create(
        f"postgresql+{driver or 'psycopg'}",
        username=parts["user"],
        password=parts.get("password"),
        host=None if query else parts["host"],
        port=int(parts["port"]) if "port" in parts and not query else None,
        database=parts["dbname"],
        query=query,
    )


BLOCKING_SQLITE = [through_sqlite3, through_session, through_sqlmodel_session, through_scoped_session,
                   through_engine_connection, through_engine_begin]  # fmt: skip
BLOCKING_POSTGRES = [through_psycopg, through_psycopg_block, through_session, through_sqlmodel_session,
                     through_scoped_session, through_engine_connection, through_engine_begin]  # fmt: skip
AWAITING_SQLITE = [
    through_aiosqlite, through_async_session("aiosqlite"), through_async_session("aiosqlite", SQLModelAsyncSession),
    through_async_engine_connection("aiosqlite"),
]  # fmt: skip
AWAITING_POSTGRES = [
    through_async_psycopg, through_asyncpg, through_asyncpg_in_words, through_asyncpg_pool,
    through_async_session("psycopg"), through_async_session("asyncpg"),
    through_async_session("asyncpg", SQLModelAsyncSession),
    through_async_engine_connection("psycopg"), through_async_engine_connection("asyncpg"),
]  # fmt: skip
