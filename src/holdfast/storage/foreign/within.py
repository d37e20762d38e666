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
    from ..postgres.place import BorrowedPlaces

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """The store's side: its database, its clock, its wake-ups."""

    backend: str
    clock: Clock | None
    announce: Callable[[Collection[str]], None]
    notify: bool = False
    """True to wake other processes by NOTIFY inside the caller's transaction."""
    run_on_sqlite: Callable[[sqlite3.Connection, Op[Any]], tuple[Any, set[str]]] | None = None
    """Runs an operation in a transaction that is open on a borrowed SQLite connection."""
    begin_on_sqlite: Callable[[sqlite3.Connection], None] | None = None
    """Begins a transaction on such a connection."""
    places: BorrowedPlaces | None = None
    """Checks where borrowed connections to Postgres write."""


def run_within(host: Host, connection: object, op: Op[T]) -> T:
    """Run in the caller's transaction. TypeError for async connections."""
    kind = kind_of(connection)
    if kind in AWAITING:
        raise TypeError(f"a {kind.value} must be awaited: use aenqueue(), or the async version of what you called")
    borrowed = unwrap(connection, kind)
    if isinstance(borrowed.driver, sqlite3.Connection):
        _require(host, "sqlite", borrowed.driver)
        answer, topics = _on_sqlite(host, borrowed.driver, op, borrowed.begun)
    else:
        answer, topics = _on_psycopg(host, borrowed, op)
    _announce_after_commit(host, borrowed, topics)
    return answer


async def arun_within(host: Host, connection: object, op: Op[T]) -> T:
    """Run in the caller's transaction, blocking or async."""
    kind = kind_of(connection)
    if kind not in AWAITING:
        return run_within(host, connection, op)
    borrowed = await aunwrap(connection, kind)
    driver = kind_of(borrowed.driver)
    if driver is Kind.AIOSQLITE:
        _require(host, "sqlite", borrowed.driver)
        return await _on_aiosqlite(host, borrowed, op)
    _require(host, "postgres", borrowed.driver)
    if driver is Kind.ASYNCPG:
        from .on_asyncpg import run_on_asyncpg

        return await run_on_asyncpg(borrowed.driver, op, host.clock, _places(host), notify=host.notify)
    from .on_psycopg import arun_on_psycopg

    return await arun_on_psycopg(borrowed.driver, op, host.clock, _places(host), notify=host.notify)


def _on_sqlite(host: Host, driver: sqlite3.Connection, op: Op[T], begun: bool) -> tuple[T, set[str]]:
    assert host.run_on_sqlite is not None, "a SQLite store says how"
    assert host.begin_on_sqlite is not None, "a SQLite store says how"
    begin_if_only_promised(driver, begun, host.begin_on_sqlite)
    return host.run_on_sqlite(driver, op)


def _on_psycopg(host: Host, borrowed: BorrowedConnection, op: Op[T]) -> tuple[T, set[str]]:
    _require_supported(borrowed.driver)
    _require(host, "postgres", borrowed.driver)
    from .on_psycopg import run_on_psycopg

    return run_on_psycopg(
        borrowed.driver, op, host.clock, _places(host), notify=host.notify and borrowed.on_commit is None
    )


def _places(host: Host) -> BorrowedPlaces:
    assert host.places is not None, "a Postgres store says where it is"
    return host.places


async def _on_aiosqlite(host: Host, borrowed: BorrowedConnection, op: Op[T]) -> T:
    # On the connection's own thread, in one go: a switch for each statement would cost more than the statements.
    call: Any = partial(_on_sqlite, host, borrowed.driver._conn, op, borrowed.begun)
    answer, _ = await borrowed.driver._execute(call)
    result: T = answer
    return result


def _announce_after_commit(host: Host, borrowed: BorrowedConnection, topics: set[str]) -> None:
    # Without a hook, Postgres sends NOTIFY in the transaction, and on SQLite the commit itself shows in the WAL.
    if topics and borrowed.on_commit is not None:
        borrowed.on_commit(partial(host.announce, topics))


def _require_supported(driver: object) -> None:
    if kind_of(driver) is not Kind.PSYCOPG:
        raise TypeError(f"the given connection runs on {full_name(driver)}; use psycopg 3 (postgresql+psycopg://)")


def _require(host: Host, backend: str, driver: object) -> None:
    if host.backend != backend:
        raise TypeError(
            f"a {backend} connection ({full_name(driver)}) was passed to a {host.backend} store; pass"
            f" one of {host.backend}"
        )
