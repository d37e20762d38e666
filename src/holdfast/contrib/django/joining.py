"""The project's store: a write joins the transaction that `transaction.atomic()` has open on its alias."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from asgiref.sync import AsyncToSync, sync_to_async

from ...errors import ConfigError, SchemaMismatch, StorageBusy
from ...storage.foreign.kinds import Kind, find_kind
from ...storage.port import ListOp, Op, Store
from .untyped import connections

T = TypeVar("T")
Item = TypeVar("Item")

_SYNC_CALLER: Final = object()
"""Stands for the transaction of the sync code that called this async code, if it has one open."""


class JoiningStore:
    """A store that knows Django's connections. Everything else it leaves to the store of the database."""

    def __init__(self, store: Store, alias: str) -> None:
        self._store = store
        self._alias = alias

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def ambient(self) -> object | None:
        """Return the transaction that a write joins by itself; None if there is none."""
        if runs_loop():
            # But sync code may have one open around `async_to_sync`.
            return _SYNC_CALLER if _has_sync_caller() else None
        return self._open_transaction()

    def write(self, op: Op[T]) -> T:
        with _djangos_advice:
            return self._store.write(op)

    async def awrite(self, op: Op[T]) -> T:
        with _djangos_advice:
            return await self._store.awrite(op)

    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        with _djangos_advice:
            return self._store.write_list(op)

    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        with _djangos_advice:
            return await self._store.awrite_list(op)

    def within(self, connection: object, op: Op[T]) -> T:
        if connection is _SYNC_CALLER:
            # Found by async code, and used by a blocking call of it.
            return self.write(op)
        self._check_alias(connection)
        try:
            with _djangos_advice:
                return self._store.within(connection, op)
        except StorageBusy as busy:
            if self._store.backend != "sqlite":
                raise
            # One that began as a writer would have waited at its beginning.
            raise StorageBusy(
                "database is locked: another transaction wrote after this one began; repeat the whole atomic() block,"
                ' and set OPTIONS to {"transaction_mode": "IMMEDIATE", "timeout": 20}, with which blocks wait for'
                " each other",
                backend=busy.backend,
            ) from busy

    async def awithin(self, connection: object, op: Op[T]) -> T:
        if connection is _SYNC_CALLER:
            joined = await sync_to_async(self._open_transaction)()
            if joined is None:
                return await self.awrite(op)
            connection = joined
        elif find_kind(connection) is not Kind.DJANGO:
            return await self._store.awithin(connection, op)
        # A connection of Django's belongs to the thread of its sync code.
        return await sync_to_async(self.within)(connection, op)

    def _open_transaction(self) -> object | None:
        return open_transaction(self._alias, self._is_open)

    def _is_open(self, connection: Any) -> bool:
        # With autocommit off, the first statement begins one.
        begins_itself = connection.alias == self._alias and connection.connection and not connection.autocommit
        return bool(connection.in_atomic_block or begins_itself)

    def _check_alias(self, connection: Any) -> None:
        if find_kind(connection) is Kind.DJANGO and connection.alias != self._alias:
            raise ConfigError(
                f"connection= is the database {connection.alias!r}, and jobs are in {self._alias!r}; leave it out, or"
                f" pass connections[{self._alias!r}]"
            )


def open_transaction(alias: str, is_open: Callable[[Any], bool]) -> object | None:
    """Return the connection of an alias whose transaction is open; None if no alias has one that is.

    Raises ConfigError where only other databases are in a transaction, with which a write would not roll back.
    """
    found = [connection for connection in connections.all(initialized_only=True) if is_open(connection)]
    for connection in found:
        if connection.alias == alias:
            return cast(object, connection)
    if found:
        raise ConfigError(
            f"this code is in transaction.atomic(using={found[0].alias!r}), and jobs are in {alias!r}: a rollback"
            f" would not undo the enqueue; enqueue after the block, open atomic(using={alias!r}) too, or"
            " enqueue inside app.within(None) to commit on its own"
        )
    return None


class _DjangosAdvice:
    """Lets an error about the schema say how Django brings it up to date. Entered by any number of callers at once."""

    def __enter__(self) -> None:
        """Begin nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, SchemaMismatch) and "holdfast db migrate" in str(error):
            what = str(error).partition(";")[0]
            raise SchemaMismatch(f"{what}; run: manage.py migrate holdfast", backend=error.backend) from error


_djangos_advice: Final = _DjangosAdvice()


def runs_loop() -> bool:
    """Return whether the caller is async code, in which no transaction of Django's spans an await."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _has_sync_caller() -> bool:
    """Return whether `async_to_sync` started this code: its thread waits, and runs what `sync_to_async` sends."""
    if getattr(AsyncToSync.executors, "current", None) is not None:
        return True
    return asyncio.get_running_loop() in AsyncToSync.loop_thread_executors
