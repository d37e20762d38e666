"""Messages between a worker and its child processes: JSON, each preceded by its length in four bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

LARGEST: Final = 256 * 1024 * 1024
_encoder: Final = msgspec.json.Encoder()


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First message to a child: the worker's module path."""

    path: list[str]
    pythonpath: str | None
    """The worker's own variable, which the child restores for the programs that it starts."""


class RunOrder(msgspec.Struct, frozen=True, tag="run"):
    """Run one job by the task object `qualname` of `module`."""

    serial: int
    module: str
    qualname: str
    header: dict[str, Any]
    payload: str


class CancelOrder(msgspec.Struct, frozen=True, tag="cancel"):
    """Ask the run `serial` to stop, if it has not ended."""

    serial: int


class EndOrder(msgspec.Struct, frozen=True, tag="end"):
    """End the handler of the run `serial` now, by an exception, so that its resources are closed."""

    serial: int


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The handler of the run `serial` may begin."""

    serial: int


class ChildReady(msgspec.Struct, frozen=True, tag="ready"):
    """The child has started and reads its orders."""


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """The run `serial` begins: from here on it is blamed if the child dies."""

    serial: int


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The task of the run `serial` is imported, and its handler waits for `Begin`."""

    serial: int


class RunOutcome(msgspec.Struct, frozen=True, tag="outcome"):
    """Outcome of the run `serial`."""

    serial: int
    outcome: dict[str, Any]


Order: TypeAlias = Hello | RunOrder | Begin | CancelOrder | EndOrder
Reply: TypeAlias = ChildReady | Begun | Loaded | RunOutcome
orders: Final[msgspec.json.Decoder[Order]] = msgspec.json.Decoder(Order)
replies: Final[msgspec.json.Decoder[Reply]] = msgspec.json.Decoder(Reply)


def frame(message: msgspec.Struct) -> bytes:
    """Encode one message."""
    body = _encoder.encode(message)
    if len(body) > LARGEST:
        raise ValueError(f"a message of {len(body):,} bytes is over the limit of {LARGEST:,}")
    return len(body).to_bytes(4, "big") + body


class FrameSplitter:
    """Splits a stream of bytes into the bodies of messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that `data` completes. ValueError if the stream is not one of messages."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            end = 4 + int.from_bytes(buffer[:4], "big")
            if end > LARGEST:
                raise ValueError(f"a message cannot take {end:,} bytes: something else wrote into the channel")
            if len(buffer) < end:
                return
            body = bytes(buffer[4:end])
            del buffer[:end]
            yield body
