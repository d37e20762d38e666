"""A few connections, kept open. Two pools of one shape: one for threads, one for each event loop.

No threads of its own. A connection goes back only when it is idle and unbroken, and is looked at before it is lent
again, so that a server's restart is noticed here instead of in the middle of a write.
"""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections import deque
from typing import Final

from psycopg.pq import TransactionStatus

from ...errors import StorageBusy, StorageUnavailable
from .connect import Address, AsyncConnection, Connection

_IDLE: Final = TransactionStatus.IDLE


class Pool:
    """Connections for blocking callers, from any thread."""

    def __init__(self, address: Address, size: int, patience: float) -> None:
        self._address = address
        self._size = size
        self._patience = patience
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._fresh: set[Connection] = set()
        self._opening = 0
        self._closed = False
        self._changed = threading.Condition(threading.Lock())

    def take(self) -> Connection:
        """Lend a connection, opened if need be."""
        deadline = time.monotonic() + self._patience
        while True:
            if (connection := self._reserve(deadline)) is None:
                return self._open()
            if is_quiet(connection):
                return connection
            self.give(connection, broken=True)

    def give(self, connection: Connection, *, broken: bool = False) -> None:
        """Take a connection back, or close it where it cannot be lent again."""
        with self._changed:
            self._lent.discard(connection)
            keep = not (broken or self._closed) and connection in self._fresh and is_idle(connection)
            if keep:
                self._idle.append(connection)
            else:
                self._fresh.discard(connection)
            self._changed.notify()
        if not keep:
            connection.close()

    def drop(self) -> None:
        """Close what is idle, and what is lent when it comes back: the server is gone or has changed."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._fresh.clear()
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close what is idle now, and the rest as it comes back."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.drop()

    def _reserve(self, deadline: float) -> Connection | None:
        """An idle connection, or None as the leave to open one."""
        with self._changed:
            while True:
                if self._closed:
                    raise closed_error()
                if self._idle:
                    connection = self._idle.pop()
                    self._lent.add(connection)
                    return connection
                if len(self._lent) + self._opening < self._size:
                    self._opening += 1
                    return None
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise exhausted_error(self._size)

    def _open(self) -> Connection:
        connection: Connection | None = None
        try:
            connection = self._address.connect()
            return connection
        finally:
            with self._changed:
                self._opening -= 1
                if connection is not None:
                    self._lent.add(connection)
                    self._fresh.add(connection)
                else:
                    self._changed.notify()


class AsyncPool:
    """Connections for the tasks of one event loop. Only that loop's thread calls it, but for `close`."""

    def __init__(self, address: Address, size: int, patience: float) -> None:
        self._address = address
        self._size = size
        self._patience = patience
        self._idle: list[AsyncConnection] = []
        self._fresh: set[AsyncConnection] = set()
        self._lent: set[AsyncConnection] = set()
        self._opening = 0
        self._closed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> AsyncConnection:
        deadline = time.monotonic() + self._patience
        while True:
            if self._closed:
                raise closed_error()
            if self._idle:
                connection = self._idle.pop()
                self._lent.add(connection)
                if is_quiet(connection):
                    return connection
                self.give(connection, broken=True)
            elif len(self._lent) + self._opening < self._size:
                return await self._open()
            else:
                await self._wait_for_change(deadline)

    def give(self, connection: AsyncConnection, *, broken: bool = False) -> None:
        self._lent.discard(connection)
        if not (broken or self._closed) and connection in self._fresh and is_idle(connection):
            self._idle.append(connection)
        else:
            self._fresh.discard(connection)
            hang_up(connection)
        self._wake_one()

    def drop(self) -> None:
        idle, self._idle = self._idle, []
        self._fresh.clear()
        for connection in idle:
            hang_up(connection)

    def close(self) -> None:
        self._closed = True
        self.drop()

    async def _open(self) -> AsyncConnection:
        self._opening += 1
        try:
            connection = await self._address.aconnect()
        except BaseException:
            self._wake_one()
            raise
        finally:
            self._opening -= 1
        self._lent.add(connection)
        self._fresh.add(connection)
        return connection

    async def _wait_for_change(self, deadline: float) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        came = False
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await turn
            came = True
        except TimeoutError:
            raise exhausted_error(self._size) from None
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not came:
                # It was this one's turn, but it was cancelled before it could take it.
                self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def is_idle(connection: Connection | AsyncConnection) -> bool:
    return connection.pgconn.transaction_status == _IDLE


def is_quiet(connection: Connection | AsyncConnection) -> bool:
    """False where bytes wait on an idle connection: nothing was asked, so it can only be the server's farewell."""
    try:
        ear = select.poll()
        ear.register(connection.pgconn.socket, select.POLLIN)
        return not ear.poll(0)
    except OSError:
        return False


def hang_up(connection: AsyncConnection) -> None:
    """Close without an event loop: a cancelled task or a closed loop could not await the polite way."""
    connection.pgconn.finish()


def closed_error() -> StorageUnavailable:
    return StorageUnavailable("the store is closed; open a new one", backend="postgres")


def exhausted_error(size: int) -> StorageBusy:
    message = f"all {size} connections of this process stayed in use; repeat the call or raise pool_size"
    return StorageBusy(message, backend="postgres")
