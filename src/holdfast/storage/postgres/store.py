"""A Postgres database, opened: connections, retries, merging and wake-ups behind the storage port.

Nothing here keeps session state on the server, so the store works behind PgBouncer in transaction mode (with
`notify=False` or a direct `listen_dsn`, and `prepare=False` before PgBouncer 1.21).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ...clock import Clock, SystemClock
from .. import forking, migrate
from ..blobs import TableBlobs
from ..foreign import Host, arun_within, run_within
from ..outage import Outage
from ..port import ListOp, Op, Value
from ..timing import Timings, atimed, timed
from . import migrations
from .blocking_threads import BlockingThreads
from .connect import Connection, address
from .deadlines import Deadlines
from .describe import describe
from .merge import AsyncMerger, Merger
from .place import PLACE, BorrowedPlaces
from .pool import Pool, closed_error
from .runner import READ, WRITE, AnyOp, Bounds, Done, Runner
from .wakeups import PgWakeups

T = TypeVar("T")
Item = TypeVar("Item")

_TRUSTED: Final = 10.0
"""Seconds after which a write checks again whether this code may write to the schema: others may migrate it."""


class PostgresStore:
    """One database for blocking and async callers.

    `clock` replaces the server's clock in tests. `patience` bounds the retries of a busy database and the wait for a
    pooled connection, `limit` the seconds that the server may leave a statement unanswered. `pool_size` counts the
    connections for blocking callers, and again for each event loop.
    `depth` is how many merged batches are under way at once. `schema` is set as a connection option, which PgBouncer
    refuses by default; behind it, let the role set its search_path.
    """

    backend = "postgres"
    in_memory = False
    blobs = TableBlobs()

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock | None = None,
        schema: str | None = None,
        pool_size: int = 8,
        depth: int = 2,
        patience: float = 5.0,
        limit: float = 10.0,
        connect_timeout: float = 5.0,
        prepare: bool = True,
        notify: bool = True,
        listen_dsn: str | None = None,
    ) -> None:
        connect_timeout = min(connect_timeout, limit)
        self._address = address(dsn, connect_timeout=connect_timeout, prepare=prepare, schema=schema)
        self._listen_address = address(listen_dsn or dsn, connect_timeout=connect_timeout, prepare=False)
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._schema = schema
        self._pool_size = pool_size
        self._depth = depth
        self._bounds = Bounds(min(patience, limit), limit)
        self._notify = notify
        self._closed = False
        self.outage: Final = Outage()
        self.timings: Final = Timings()
        self._deadlines = Deadlines(limit)
        self._wakeups = PgWakeups(self._address, self._listen_address, notify=notify, deadlines=self._deadlines)
        self._host = Host(
            "postgres",
            self._clock,
            self._wakeups.announce,
            notify,
            places=BorrowedPlaces(lambda: self._runner.run(PLACE, READ).answer),
        )
        self._open()
        forking.renew_after_fork(self)

    @property
    def wakeups(self) -> PgWakeups:
        return self._wakeups

    @property
    def writes_waiting(self) -> int:
        return self._merger.waiting + sum(lane.merger.waiting for lane in list(self._lanes.values()))

    def pool_peak(self) -> tuple[int, int]:
        """Return the peak of the busiest pool: there is one for blocking callers, and one for each event loop."""
        pools = [self._pool, *(lane.pool for lane in list(self._lanes.values()))]
        return max(pool.take_peak() for pool in pools), self._pool_size

    @timed
    def write(self, op: Op[T]) -> T:
        return self._write(op)

    def _write(self, op: AnyOp[T], until: float | None = None) -> T:
        done = self._written(self._runner, op, until)
        if done.topics:
            self._wakeups.announce(done.topics)
        return done.answer

    @atimed
    async def awrite(self, op: Op[T]) -> T:
        return await self._awrite(op)

    async def _awrite(self, op: AnyOp[T], until: float | None = None) -> T:
        lane = self._lane()
        # From here: the wait for a free thread counts too.
        until = lane.runner.until(op) if until is None else until
        done = await lane.threads.run(partial(self._written, lane.runner, op, until))
        if done.topics:
            self._wakeups.announce(done.topics)
        return done.answer

    @timed
    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        return self._merger.submit(op)

    @atimed
    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        return await self._lane().merger.submit(op)

    @timed
    def read(self, op: Op[T]) -> T:
        return self._runner.run(op, READ).answer

    @atimed
    async def aread(self, op: Op[T]) -> T:
        lane = self._lane()
        until = lane.runner.until(op)
        return (await lane.threads.run(partial(lane.runner.run, op, READ, until))).answer

    def within(self, connection: object, op: Op[T]) -> T:
        return self._within(op, connection)

    @timed
    def _within(self, op: Op[T], connection: object) -> T:
        if time.monotonic() >= self._look_at_schema:
            self._check_schema(self._runner)
        return run_within(self._host, connection, op)

    async def awithin(self, connection: object, op: Op[T]) -> T:
        return await self._awithin(op, connection)

    @atimed
    async def _awithin(self, op: Op[T], connection: object) -> T:
        if time.monotonic() >= self._look_at_schema:
            lane = self._lane()
            await lane.threads.run(partial(self._check_schema, lane.runner))
        return await arun_within(self._host, connection, op)

    def migrate(self) -> list[str]:
        # A server that does not answer is detected here; what follows may take as long as the tables are large.
        self._runner.run(migrations.APPLIED, READ)
        with self._connection() as connection:
            return migrations.apply(connection, self._schema)

    def drop(self) -> None:
        self._look_at_schema = 0.0
        self._runner.run(migrations.APPLIED, READ)
        with self._connection() as connection:
            migrations.drop(connection)

    def describe(self) -> dict[str, Value]:
        with self._connection() as connection, self._deadlines.limited(connection):
            facts = describe(connection, self._address, time.time())
        versions = self._runner.run(migrations.APPLIED, READ).answer
        mine: dict[str, Value] = {"schema_version": max(versions, default=0), "pool_size": self._pool_size}
        return facts | mine | {"notify": int(self._notify)}

    def close(self) -> None:
        self._closed = True
        self._wakeups.close()
        self._pool.close()
        for lane in self._lanes.values():
            lane.close()
        self._deadlines.close()

    def renew_after_fork(self) -> None:
        """Renew everything: the child uses no inherited connection, thread or lock."""
        forking.park((self._pool, self._lanes, self._merger))
        forking.park(self._wakeups.threads())
        self._deadlines.renew()
        self._wakeups.renew()
        self._open()
        if self._closed:
            self._pool.close()

    def _open(self) -> None:
        self._look_at_schema = 0.0
        self._mutex = threading.Lock()
        self._pool = Pool(self._address, self._pool_size, self._bounds.patience)
        self._runner = Runner(self._pool, self._deadlines, self._clock, self._bounds)
        self._merger = Merger(self._write, self._depth, self._bounds.limit)
        self._lanes: dict[asyncio.AbstractEventLoop, _Lane] = {}

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self._pool.take()
        try:
            yield connection
        finally:
            self._pool.give(connection, broken=connection.overdue)

    def _lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        return self._lanes.get(loop) or self._new_lane(loop)

    def _new_lane(self, loop: asyncio.AbstractEventLoop) -> _Lane:
        if self._closed:
            raise closed_error()
        pool = Pool(self._address, self._pool_size, self._bounds.patience)
        runner = Runner(pool, self._deadlines, self._clock, self._bounds)
        threads = BlockingThreads(loop, self._pool_size, self._bounds.patience)
        lane = _Lane(pool, runner, threads, AsyncMerger(self._awrite, self._depth, self._bounds.limit))
        with self._mutex:
            for other in [other for other in self._lanes if other.is_closed()]:
                self._lanes.pop(other).close()
            self._lanes[loop] = lane
        return lane

    def _written(self, runner: Runner, op: AnyOp[T], until: float | None) -> Done[T]:
        if time.monotonic() >= self._look_at_schema:
            self._check_schema(runner, until)
        return runner.run(op, WRITE, until)

    def _check_schema(self, runner: Runner, until: float | None = None) -> None:
        where = "the database" if self._schema is None else f"schema {self._schema!r} of the database"
        migrate.check(runner.run(migrations.APPLIED, READ, until).answer, "postgres", where)
        self._look_at_schema = time.monotonic() + _TRUSTED


@dataclass(frozen=True, slots=True)
class _Lane:
    """The resources of one event loop: connections of its own, and threads that make its calls."""

    pool: Pool
    runner: Runner
    threads: BlockingThreads
    merger: AsyncMerger

    def close(self) -> None:
        self.threads.close()
        self.pool.close()
