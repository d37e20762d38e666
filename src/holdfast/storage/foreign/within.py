"""Run an operation on a borrowed connection of any kind.

Code for Postgres is imported on its first use: psycopg may be missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...clock import Clock
from ..port import Op
from .borrowed import BorrowedConnection, aunwrap, begin_if_only_promised, unwrap
from .kinds import AWAITING, Kind, full_name, kind_of

if TYPE_CHECKING:
    from ..postgres.place import LentPlaces

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """The store's side: its database, its clock, its wake-ups."""

    backend: str
    clock: Clock | None
    announce: Callable[[Collection[str]], None]
    notify: bool = False
    """Whether to wake other processes by NOTIFY inside the caller's transaction."""
    run_on_sqlite: Callable[[sqlite3.Connection, Op[Any]], tuple[Any, set[str]]] | None = None
    """Runs an operation in a transaction that is open on a borrowed SQLite connection."""
    places: LentPlaces | None = None
    """Checks where borrowed connections to Postgres write."""


def run_within(host: Host, connection: object, op: Op[T]) -> T:
    """Run in the caller's transaction. TypeError for async connections."""
    kind = kind_of(connection)
    if kind in AWAITING:
        raise TypeError(f"a {kind.value} must be awaited: use aenqueue(), or the awaiting twin of what you called")
    lent = unwrap(connection, kind)
    if isinstance(lent.driver, sqlite3.Connection):
        _require(host, "sqlite", lent.driver)
        answer, topics = _on_sqlite(host, lent.driver, op, lent.begun)
    else:
        answer, topics = _on_psycopg(host, lent, op)
    _announce_after_commit(host, lent, topics)
    return answer


async def arun_within(host: Host, connection: object, op: Op[T]) -> T:
    """Run in the caller's transaction, blocking or async."""
    kind = kind_of(connection)
    if kind not in AWAITING:
        return run_within(host, connection, op)
    lent = await aunwrap(connection, kind)
    driver = kind_of(lent.driver)
    if driver is Kind.AIOSQLITE:
        _require(host, "sqlite", lent.driver)
        return await _on_aiosqlite(host, lent, op)
    _require(host, "postgres", lent.driver)
    if driver is Kind.ASYNCPG:
        from .on_asyncpg import run_on_asyncpg

        return await run_on_asyncpg(lent.driver, op, host.clock, _places(host), notify=host.notify)
    from .on_psycopg import arun_on_psycopg

    return await arun_on_psycopg(lent.driver, op, host.clock, _places(host), notify=host.notify)


def _on_sqlite(host: Host, driver: sqlite3.Connection, op: Op[T], begun: bool) -> tuple[T, set[str]]:
    assert host.run_on_sqlite is not None, "a SQLite store says how"
    begin_if_only_promised(driver, begun)
    return host.run_on_sqlite(driver, op)


def _on_psycopg(host: Host, lent: BorrowedConnection, op: Op[T]) -> tuple[T, set[str]]:
    _require_supported(lent.driver)
    _require(host, "postgres", lent.driver)
    from .on_psycopg import run_on_psycopg

    return run_on_psycopg(lent.driver, op, host.clock, _places(host), notify=host.notify and lent.on_commit is None)


def _places(host: Host) -> LentPlaces:
    assert host.places is not None, "a Postgres store says where it is"
    return host.places


async def _on_aiosqlite(host: Host, lent: BorrowedConnection, op: Op[T]) -> T:
    # On the connection's own thread, in one go: a switch for each statement would cost more than the statements.
    call: Any = partial(_on_sqlite, host, lent.driver._conn, op, lent.begun)
    answer, _ = await lent.driver._execute(call)
    result: T = answer
    return result


def _announce_after_commit(host: Host, lent: BorrowedConnection, topics: set[str]) -> None:
    # Without a hook, Postgres sends NOTIFY in the transaction, and on SQLite the commit itself shows in the WAL.
    if topics and lent.on_commit is not None:
        lent.on_commit(partial(host.announce, topics))


def _require_supported(driver: object) -> None:
    if kind_of(driver) is not Kind.PSYCOPG:
        raise TypeError(f"the lent connection runs on {full_name(driver)}; use psycopg 3 (postgresql+psycopg://)")


def _require(host: Host, backend: str, driver: object) -> None:
    if host.backend != backend:
        raise TypeError(f"a {backend} connection ({full_name(driver)}) was lent to a {host.backend} store")
