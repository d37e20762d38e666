"""A program that a job started, in its own process group, which ends with the program, the job or the worker."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO, Final

from ..worker.processes.child_process import watch_end
from ..worker.processes.orphan_guard import OrphanGuard, kill_group

_LINE_LIMIT: Final = 1024 * 1024
_TELLING: Final = threading.Lock()


class Program:
    """Started at once; use it on the loop that made it. `ended` gives its return code, once its group has ended."""

    def __init__(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], keep_errors: bool) -> None:
        loop = asyncio.get_running_loop()
        self.ended: Final[asyncio.Future[int]] = loop.create_future()
        _start_guard()
        self._process = subprocess.Popen(  # noqa: S603 - a list, never a shell
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if keep_errors else None,
            start_new_session=True,
            bufsize=0,
        )
        _watch(self._process.pid)
        self._transports: list[asyncio.BaseTransport] = []
        watch_end(self._process, loop, self._bury)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def input(self) -> asyncio.StreamWriter:
        """Return a writer to its standard input."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._process.stdin)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def output(self) -> asyncio.StreamReader:
        """Return a reader of its standard output."""
        return await self._reader(self._process.stdout)

    async def errors(self) -> asyncio.StreamReader:
        """Return a reader of its standard error, if that is kept."""
        return await self._reader(self._process.stderr)

    def kill(self) -> None:
        """Send SIGKILL to the program and all that it started."""
        if not self.ended.done():
            kill_group(self.pid)

    async def end(self, grace: float) -> None:
        """Ask it to end, kill it if it does not, and return when its whole group has ended."""
        try:
            if not self.ended.done():
                _ask(self.pid)
                await asyncio.wait({self.ended}, timeout=grace)
        finally:
            self.kill()
        await asyncio.wait({self.ended})

    def close(self) -> None:
        """Close our ends of its pipes."""
        for transport in self._transports:
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    async def _reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=_LINE_LIMIT)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    def _bury(self) -> None:
        # Before the process is reaped: until then the group's number cannot be reused.
        kill_group(self.pid)
        with _TELLING:
            _guard(os.getpid()).forget(self.pid)
        if not self.ended.done():
            self.ended.set_result(self._process.wait())


def _ask(group: int) -> None:
    try:
        os.killpg(group, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return


def _start_guard() -> None:
    with _TELLING:
        _guard(os.getpid()).start()


def _watch(group: int) -> None:
    with _TELLING:
        _guard(os.getpid()).watch(group)


@cache
def _guard(_: int) -> OrphanGuard:
    """Return the guard of this process; a forked process makes its own."""
    guard = OrphanGuard(sys.executable)
    atexit.register(guard.close)
    return guard
