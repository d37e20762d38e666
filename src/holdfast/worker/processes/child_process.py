"""One child process of the worker, the job that it has, and the worker's end of the channel to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from socket import socketpair
from typing import Any, Final, TypeAlias

import msgspec

from .messages import (
    Begin,
    Begun,
    CancelOrder,
    ChildReady,
    EndOrder,
    FrameSplitter,
    Hello,
    Loaded,
    RunOrder,
    frame,
    replies,
)
from .orphan_guard import OrphanGuard, kill_group

OutcomeDict: TypeAlias = "dict[str, Any]"
MayBegin: TypeAlias = "Callable[[], Awaitable[bool]]"
_CHUNK: Final = 262_144
# For resources to be closed after their run was ended; a pool waits about as long for its children.
_CLOSING_TIME: Final = 1.5


class ChildDied(Exception):
    """The child ended before its job: `exitcode`, or the `signal` that killed it; `killed` if we did."""

    def __init__(self, returncode: int, *, killed: bool, begun: bool) -> None:
        self.exitcode = returncode if returncode >= 0 else None
        self.signal = -returncode if returncode < 0 else None
        self.killed = killed
        self.begun = begun
        """True if the job had begun; otherwise it did not cause the death."""
        self.shared = False
        """True if several jobs of a batch were in it; which one caused the death is not known."""
        end = f"exit code {returncode}" if self.signal is None else _signal_name(self.signal)
        super().__init__(f"the child process was killed ({end})" if killed else f"the child process died ({end})")


class ChildTicket:
    """One submitted job. `future` gets its outcome, ChildDied, or OSError if no child could be started."""

    __slots__ = ("_child", "_frame", "_may_begin", "begun", "future", "serial")

    def __init__(self, future: asyncio.Future[OutcomeDict], run: RunOrder, may_begin: MayBegin | None) -> None:
        self.future = future
        self._may_begin = may_begin
        self.serial = run.serial
        self.begun = False
        self._frame = frame(run)
        self._child: ChildProcess | None = None


class ChildProcess:
    """Starts at once. Calls `on_free` after each job, and `on_end` after its death, with a job that never began."""

    def __init__(
        self,
        python: str,
        guard: OrphanGuard,
        *,
        on_free: Callable[[ChildProcess], None],
        on_end: Callable[[ChildProcess, ChildTicket | None], None],
    ) -> None:
        self.ticket: ChildTicket | None = None
        self.ended: Final = asyncio.Event()
        self._ready = False
        self._killed = False
        self._doomed = False
        """True if no further job may be given to it."""
        self._is_ending = False
        self._asking: asyncio.Task[None] | None = None
        self._guard = guard
        self._on_free = on_free
        self._on_end = on_end
        ours, theirs = socketpair()
        try:
            self._process = _launch(python, theirs.fileno())
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        guard.watch(self._process.pid)
        self.link = Link(ours, self._receive, self._hang_up)
        self.link.send(frame(Hello(list(sys.path), os.environ.get("PYTHONPATH"))))
        watch_end(self._process, asyncio.get_running_loop(), self._on_exit)

    def give(self, ticket: ChildTicket) -> None:
        """Run a job in the child, which must be idle."""
        self.ticket = ticket
        ticket._child = self
        self.link.send(ticket._frame)

    def kill(self) -> None:
        """Send SIGKILL to the child and all that it started. Safe until it is reaped: its pid is not reused."""
        if not self.ended.is_set():
            self._killed = self._doomed = True
            kill_group(self._process.pid)

    def end(self, ticket: ChildTicket) -> None:
        """Raise an exception in the handler of this job; kill the child if the job has not ended soon after."""
        if not self._is_ending:
            self._doomed = self._is_ending = True
            self.link.send(frame(EndOrder(ticket.serial)))
            asyncio.get_running_loop().call_later(_CLOSING_TIME, self._kill_late, ticket)

    def _kill_late(self, ticket: ChildTicket) -> None:
        if self.ticket is ticket:
            self.kill()

    def dismiss(self) -> None:
        """End the child: an idle one by closing its channel, a busy one by SIGKILL unless it is ending."""
        if self.ticket is None:
            self.link.close()
        elif not self._is_ending:
            self.kill()
            self.link.close()

    def _receive(self, body: bytes) -> None:
        try:
            reply = replies.decode(body)
        except msgspec.MsgspecError as error:
            raise ValueError("something else wrote into the channel") from error
        if isinstance(reply, ChildReady):
            self._ready = True
        elif self.ticket is None or self.ticket.serial != reply.serial:
            return
        elif isinstance(reply, Begun):
            self.ticket.begun = True
        elif isinstance(reply, Loaded):
            self._asking = asyncio.ensure_future(self._answer(self.ticket))
        else:
            self._finish(self.ticket, reply.outcome)

    async def _answer(self, ticket: ChildTicket) -> None:
        may_begin = ticket._may_begin is None or await ticket._may_begin()
        self.link.send(frame((Begin if may_begin else CancelOrder)(ticket.serial)))

    def _finish(self, ticket: ChildTicket, outcome: OutcomeDict) -> None:
        self.ticket = None
        if not ticket.future.done():
            ticket.future.set_result(outcome)
        if not self._doomed:
            self._on_free(self)
        elif self._is_ending:
            self.link.close()

    def _hang_up(self) -> None:
        # The child is dying, or a handler has closed the channel: no outcome can arrive any more.
        self._doomed = True
        kill_group(self._process.pid)

    def _on_exit(self) -> None:
        self._doomed = True
        if self._asking is not None:
            self._asking.cancel()
        # An outcome sent before death counts.
        self.link.drain()
        self.link.close()
        # Before reaping: until then the group's id is not reused.
        kill_group(self._process.pid)
        self._guard.forget(self._process.pid)
        returncode = self._process.wait()
        self.ended.set()
        self._on_end(self, self._lose(returncode))

    def _lose(self, returncode: int) -> ChildTicket | None:
        """Fail the job that died with the child. A job that had not begun is returned instead."""
        ticket, self.ticket = self.ticket, None
        if ticket is None or ticket.future.done():
            return None
        if self._ready and not ticket.begun and not self._killed:
            ticket._child = None
            return ticket
        ticket.future.set_exception(ChildDied(returncode, killed=self._killed, begun=ticket.begun))
        return None


def _launch(python: str, channel: int) -> subprocess.Popen[bytes]:
    # -P and our own path, in our own order: the child must import the worker's modules.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(  # noqa: S603 - our own program
        [python, "-P", "-m", "holdfast.worker.processes.child", str(channel), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=(channel,),
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )


def watch_end(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
    """Call `on_exit` on the loop when the process has ended. On Linux it is not reaped before."""

    def wait() -> None:
        try:
            if sys.platform == "linux":
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
        except ChildProcessError:
            pass  # Other code reaped it, or SIGCHLD is ignored: it is dead in any case.
        try:
            loop.call_soon_threadsafe(on_exit)
        except RuntimeError:
            process.wait()

    threading.Thread(target=wait, name=f"holdfast-child-{process.pid}", daemon=True).start()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Link:
    """Sends frames and passes received bodies to `on_body`; calls `on_end` once, when nothing more can arrive.

    A ValueError from `on_body` ends the link. Not an asyncio transport, because the last messages of a dead child must
    be read at the moment its death is known.
    """

    def __init__(self, channel: socket.socket, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._on_body = on_body
        self._on_end = on_end
        self._frames = FrameSplitter()
        self._unsent = bytearray()
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(channel, self._read)

    def send(self, frame: bytes) -> None:
        """Send now what the socket accepts, and the rest when it can. The reader notices a dead child."""
        if not self._open:
            return
        idle = not self._unsent
        self._unsent += frame
        if idle and not self._flush():
            self._loop.add_writer(self._channel, self._write)

    def drain(self) -> None:
        """Read all that has arrived."""
        while self._open and self._read():
            pass

    def close(self) -> None:
        """Close the channel. The child reads the end of its input."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()

    def _read(self) -> bool:
        try:
            data = self._channel.recv(_CHUNK)
            for body in self._frames.feed(data):
                self._on_body(body)
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            data = b""
        if not data:
            self.close()
            self._on_end()
        return bool(data)

    def _write(self) -> None:
        if self._flush():
            self._loop.remove_writer(self._channel)

    def _flush(self) -> bool:
        try:
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent.clear()
        return True
