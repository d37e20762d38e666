"""The database, schema and server that a connection writes to, to refuse a borrowed one that writes elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from ...errors import ConfigError
from ..port import Op, Tx
from ..statements import Statement

SELECT_PLACE: Final = """select current_database()::text,
 coalesce((select relnamespace::regnamespace::text from pg_class where oid = to_regclass('holdfast_job')),
          current_schema()::text, ''),
 to_regclass('holdfast_job')::oid::bigint,
 (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint"""
_STATEMENT: Final = Statement("select_place", "", SELECT_PLACE)


class Place(NamedTuple):
    """The place where a connection finds the table of jobs."""

    database: str
    schema: str
    table: int | None
    """The table's oid; None where the connection sees none."""
    server_started_at: int
    """Distinguishes servers: a proxy hides addresses, and no two servers start in the same microsecond."""


async def _place_of(tx: Tx) -> Place:
    row = await tx.one(_STATEMENT)
    assert row is not None
    return Place(*row)


PLACE: Final = Op(_place_of, single=True)


class BorrowedPlaces:
    """Checks once for each borrowed connection that it writes where its store does. `read` asks the store."""

    def __init__(self, read: Callable[[], Place]) -> None:
        self._read = read
        self._own: Place | None = None
        self._checked: WeakSet[Any] = WeakSet()

    def is_checked(self, driver: Any) -> bool:
        return _lasting(driver) in self._checked

    def accept(self, driver: Any, found: Place) -> bool:
        """Return whether a connection is known to write to the store, without asking the store."""
        if found == self._own:
            self._checked.add(_lasting(driver))
        return found == self._own

    def require(self, driver: Any, found: Place) -> None:
        """Ask the store where it is, and refuse a connection to another place. Blocks."""
        # The server may have been restarted since the store was asked.
        self._own = self._read()
        if not self.accept(driver, found):
            raise ConfigError(_explain(found, self._own))


def _explain(found: Place, own: Place) -> str:
    if (found.database, found.schema) == (own.database, own.schema):
        theirs, mine = f"database {found.database!r} of another server", f"{own.database!r} of its own"
    else:
        theirs = f"database {found.database!r}, schema {found.schema!r}"
        mine = f"database {own.database!r}, schema {own.schema!r}"
    return (
        f"the given connection writes to {theirs}, and the app's store is {mine}; pass a connection to the app's store"
    )


def _lasting(driver: Any) -> Any:
    """Return the connection behind a proxy that a pool of asyncpg makes for each use."""
    return getattr(driver, "_con", driver)
