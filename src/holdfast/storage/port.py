"""What an operation may ask of a database, and what a store offers to the layers above.

An operation is `async def op(tx, …)` that awaits nothing but its `Tx`. Over a blocking `Tx` the coroutine never
suspends and `step` runs it to its end; over an async one it really awaits. So each operation is written once for
both databases, both colours of caller, and the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from .statements import Statement

if TYPE_CHECKING:
    from .blobs import Blobs
    from .outage import Outage
    from .timing import Timings

T = TypeVar("T")
Item = TypeVar("Item")

Value: TypeAlias = "str | int | float | bytes | None"
Params: TypeAlias = Mapping[str, Value]
Row: TypeAlias = tuple[Any, ...]


class Files(Protocol):
    """Bytes in files beside a SQLite database. Both block."""

    def put(self, blob: str, data: bytes) -> None:
        """Write a whole file, safely on the disk when this returns."""
        ...

    def get(self, blob: str) -> bytes | None:
        """The whole file; None where there is none."""
        ...


class Tx(Protocol):
    """One open transaction. `:now` in a statement is the database's clock, or the test's."""

    @property
    def files(self) -> Files | None:
        """Where large values are; None where they are in the database itself."""
        ...

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        """Run a statement and return its first row."""
        ...

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        """Run a statement and return every row."""
        ...

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        """Run a statement for each row; one answer per row, in order, None where nothing matched.

        Postgres runs it once: its text takes all rows as the JSON document `:items`, or each parameter as an array,
        and returns the 1-based ordinal as its first column, which is removed here. SQLite does so where its text says
        `:items`, and the first columns are the row's id and epoch. `rows` must share one set of names.
        """
        ...

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        """Run a statement for each row of values, which come in the order of `names`; how many of them matched.

        The lean twin of `each`, where it seldom matters which.
        """
        ...

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        """Store rows of values as they are, in the order of the statement's columns. A conflict is an error."""
        ...

    def ring(self, topic: str) -> None:
        """Wake those who wait for `topic` once the transaction has committed. A hint, never the truth."""
        ...


class Op(msgspec.Struct, Generic[T], frozen=True):
    """An operation as a value: it can be run by another caller, in another's commit, and run again.

    `run` may be called more than once and must capture all it needs beforehand: no contextvars, no clock.
    `single` says that it is one statement, which is atomic by itself and needs no savepoint. Where that changed
    nothing, reads may follow.
    """

    run: Callable[[Tx], Coroutine[Any, Any, T]]
    single: bool = False
    patience: float | None = None
    """Seconds to try for the write lock, where the caller knows better than the store's default."""
    slow: bool = False
    """A statement of it may take minutes on a large database, which no time limit of callers should end."""
    may_lose_on_power_failure: bool = False
    """A loss of power may undo it where the whole system is on one host: a claim, say, whose run is lost as well."""
    name: str = ""
    """Under which it is timed; empty: that of the operation which `run` calls, such as `workers.register`."""


class ListOp(msgspec.Struct, Generic[Item, T], frozen=True):
    """An operation over a list, answered item by item, which a store may merge with others of the same `run`.

    An item's failure is a value in its answer; it never fails its neighbours. Over one item it is one statement.
    """

    run: Callable[[Tx, Sequence[Item]], Coroutine[Any, Any, list[T]]]
    items: Sequence[Item]
    name: str = ""
    """Under which it is timed; empty: that of `run`."""


class Bell(Protocol):
    """Wake-ups by topic, with permits: a ring that comes while nobody waits is kept for the next wait."""

    def listen(self, topics: Collection[str]) -> Listener:
        """Start to hear `topics`. Rings from now on are kept until the listener waits."""
        ...

    def ring(self, topics: Collection[str]) -> None:
        """Wake the listeners of `topics` in this process."""
        ...


class Listener(Protocol):
    """One party's ear on the bell. Close it when done."""

    def wait(self, timeout: float) -> bool:
        """Block until a topic rings or the time is over; True if it rang."""
        ...

    async def await_ring(self, timeout: float) -> bool:
        """The awaiting twin of `wait`."""
        ...

    def ring(self) -> None:
        """Wake whoever waits on it, or will."""
        ...

    def close(self) -> None: ...


class Reads(Protocol):
    """Where an operation can be awaited that only reads."""

    async def aread(self, op: Op[T]) -> T: ...


class Writes(Protocol):
    """The same for one that writes."""

    async def awrite(self, op: Op[T]) -> T: ...


class Store(Protocol):
    """One database, opened. Safe to use from any thread and any event loop; reopens itself after fork."""

    @property
    def backend(self) -> str:
        """ "sqlite" or "postgres"."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether it is in this process's memory, where no other process reaches it."""
        ...

    @property
    def bell(self) -> Bell: ...

    @property
    def outage(self) -> Outage:
        """Logs when the database is away, once for all that use it."""
        ...

    @property
    def timings(self) -> Timings:
        """Durations of its operations in this process."""
        ...

    @property
    def blobs(self) -> Blobs:
        """Where bytes are that are too many for a row."""
        ...

    @property
    def writes_waiting(self) -> int:
        """How many writes wait for their turn in this process; a reading, old when it is read."""
        ...

    def pool_peak(self) -> tuple[int, int] | None:
        """The most connections in use at once since the last call, and how many there may be; None without a pool."""
        ...

    def write(self, op: Op[T]) -> T:
        """Run in one atomic unit, which may share its commit with strangers."""
        ...

    async def awrite(self, op: Op[T]) -> T: ...

    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        """Like `write`; operations of one kind may be merged into one statement."""
        ...

    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]: ...

    def read(self, op: Op[T]) -> T:
        """Run on a snapshot that blocks no writer."""
        ...

    async def aread(self, op: Op[T]) -> T: ...

    def within(self, connection: object, op: Op[T]) -> T:
        """Run inside the caller's own open transaction, under a savepoint. Blocking connections only."""
        ...

    async def awithin(self, connection: object, op: Op[T]) -> T:
        """Run inside the caller's own open transaction, blocking or async."""
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to date; the names of the migrations applied."""
        ...

    def drop(self) -> None:
        """Remove everything of ours, jobs and schema. What else is in the database stays."""
        ...

    def describe(self) -> dict[str, Value]:
        """What runs here: versions, settings, sizes. For `doctor`."""
        ...

    def close(self) -> None:
        """Close every connection of this process. Waiting operations are refused."""
        ...
