"""The worker's end of the channel to a child: a non-blocking socket on the event loop.

Not an asyncio transport, because the last messages of a dead child must be read at the moment its death is known.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from .messages import Frames

_CHUNK: Final = 262_144


class Link:
    """Sends frames and passes received bodies to `on_body`; calls `on_end` once, when nothing more can arrive.

    A ValueError from `on_body` ends the link.
    """

    def __init__(self, channel: socket.socket, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._on_body = on_body
        self._on_end = on_end
        self._frames = Frames()
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
