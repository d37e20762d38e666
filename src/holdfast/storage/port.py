"""The interfaces between operations and databases, and between a store and the layers above.

An operation is `async def op(tx, …)` that awaits nothing but its `Tx`. Over a blocking `Tx` the coroutine never
suspends and `step` runs it to its end; over an async one it really awaits. So each operation is written once for
both databases, blocking and async callers, and the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

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
        """Return the whole file; None where there is none."""
        ...


class Tx(Protocol):
    """One open transaction. `:now` in a statement is the database's clock, or the test's."""

    @property
    def files(self) -> Files | None:
        """Return the storage of large values; None where they are in the database itself."""
        ...

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        """Run a statement and return its first row."""
        ...

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        """Run a statement and return every row."""
        ...

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        """Run a statement for each row; return one answer per row, in order, None where nothing matched.

        Postgres runs it once: its text takes all rows as the JSON document `:items`, or each parameter as an array,
        and returns the 1-based ordinal as its first column, which is removed here. SQLite does so where its text says
        `:items`, and the first columns are the row's id and epoch. `rows` must share one set of names.
        """
        ...

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        """Run a statement for each row of values, which come in the order of `names`; return how many matched.

        Cheaper than `each`, where it seldom matters which.
        """
        ...

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        """Store rows of values as they are, in the order of the statement's columns. A conflict is an error."""
        ...

    def notify(self, topic: str) -> None:
        """Wake the listeners of `topic` once the transaction has committed. A hint, never the truth."""
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
    """Seconds to try for the write lock, where the caller overrides the store's default."""
    slow: bool = False
    """A statement of it may take minutes on a large database, which no time limit of callers should end."""
    may_lose_on_power_failure: bool = False
    """A power failure may undo it where the whole system is on one host: a claim, say, whose run is lost as well."""
    name: str = ""
    """The name under which it is timed; empty: that of the operation which `run` calls, such as `workers.register`."""


class ListOp(msgspec.Struct, Generic[Item, T], frozen=True):
    """An operation over a list, answered item by item, which a store may merge with others of the same `run`.

    An item's failure is a value in its answer; it never fails other items. Over one item it is one statement.
    """

    run: Callable[[Tx, Sequence[Item]], Coroutine[Any, Any, list[T]]]
    items: Sequence[Item]
    name: str = ""
    """The name under which it is timed; empty: that of `run`."""
    patience: ClassVar[None] = None
    slow: ClassVar[bool] = False
    may_lose_on_power_failure: ClassVar[bool] = False

    @property
    def single(self) -> bool:
        """Return whether it is one statement."""
        return len(self.items) == 1


class Wakeups(Protocol):
    """Wake-ups by topic, with permits: one that comes while no listener waits is kept for the next wait."""

    def listen(self, topics: Collection[str]) -> Listener:
        """Subscribe to `topics`. Wake-ups from now on are kept until the listener waits."""
        ...

    def notify(self, topics: Collection[str]) -> None:
        """Wake the listeners of `topics` in this process."""
        ...

    def relax(self, seconds: float) -> None:
        """Make no statement of its own more often than this, also to connect again: for databases that sleep."""
        ...


class Listener(Protocol):
    """One subscription. Close it when done."""

    def wait(self, timeout: float) -> bool:
        """Block until a wake-up or the timeout; True for a wake-up."""
        ...

    async def await_ring(self, timeout: float) -> bool:
        """The async version of `wait`."""
        ...

    def notify(self) -> None:
        """Wake its current waiter, or the next one."""
        ...

    def close(self) -> None: ...


class Reads(Protocol):
    """A store on which read-only operations can be awaited."""

    async def aread(self, op: Op[T]) -> T: ...


class Writes(Protocol):
    """A store on which writing operations can be awaited."""

    async def awrite(self, op: Op[T]) -> T: ...


class Store(Protocol):
    """One database, opened. Safe to use from any thread and any event loop; reopens itself after fork."""

    @property
    def backend(self) -> str:
        """ "sqlite" or "postgres"."""
        ...

    @property
    def in_memory(self) -> bool:
        """Return whether it is in this process's memory, where no other process reaches it."""
        ...

    @property
    def wakeups(self) -> Wakeups: ...

    @property
    def outage(self) -> Outage:
        """Return the log of outages, shared by all that use the store."""
        ...

    @property
    def timings(self) -> Timings:
        """Return the durations of its operations in this process."""
        ...

    @property
    def blobs(self) -> Blobs:
        """Return the storage of bytes that are too large for a row."""
        ...

    @property
    def writes_waiting(self) -> int:
        """Return how many writes wait in this process; already outdated when read."""
        ...

    def pool_peak(self) -> tuple[int, int] | None:
        """Return the most connections in use at once since the last call, and the maximum; None without a pool."""
        ...

    def write(self, op: Op[T]) -> T:
        """Run in one atomic unit, which may share its commit with other callers."""
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
        """Bring the schema up to date; return the names of the migrations applied."""
        ...

    def drop(self) -> None:
        """Remove Holdfast's jobs and schema. Other objects in the database stay."""
        ...

    def describe(self) -> dict[str, Value]:
        """Return versions, settings and sizes. For `doctor`."""
        ...

    def close(self) -> None:
        """Close every connection of this process. Waiting operations are refused."""
        ...
