"""What every peer is asked to do, from a command line: reset, fill, sample delays, say when all is finished, work.

A handler notes its job's number and the time in a file, by one append of 16 bytes, which costs about a microsecond.
BENCH_PLACE names the folder, database or Redis; BENCH_RECORD the file; BENCH_WORK the seconds that a job lasts.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

PLACE: Final = os.environ.get("BENCH_PLACE", "")
WORK: Final = float(os.environ.get("BENCH_WORK", "0"))
LEASE: Final = 10
"""Seconds after which a silent worker should be given up, where a peer lets one choose. Used only where jobs last."""
INDEX: Final = os.environ.get("BENCH_INDEX", "0")
"""Of this worker; the one that takes a dead one's place has the same."""
TEXT: Final = "x" * 64
BULK: Final = 1_000
ENDED: Final = 1 << 63
"""Added to the number when the job has ended; noted only where jobs last some time."""
_pack = struct.Struct("<QQ").pack
_record = os.open(os.environ.get("BENCH_RECORD", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def handle(number: int) -> None:
    """What a job does, in a thread."""
    os.write(_record, _pack(number, time.monotonic_ns()))
    if WORK:
        time.sleep(WORK)
        os.write(_record, _pack(number | ENDED, time.monotonic_ns()))


async def ahandle(number: int) -> None:
    """What a job does, on an event loop."""
    os.write(_record, _pack(number, time.monotonic_ns()))
    if WORK:
        await asyncio.sleep(WORK)
        os.write(_record, _pack(number | ENDED, time.monotonic_ns()))


class Peer:
    """One queue, with a synchronous producer."""

    def reset(self) -> None:
        """Make the place ready and empty."""
        raise NotImplementedError

    def open(self) -> None:
        """Connect as a producer does."""

    def put(self, number: int) -> None:
        raise NotImplementedError

    def put_many(self, numbers: Sequence[int]) -> None:
        """In the peer's own way of enqueueing many, if it has one."""
        raise NotImplementedError

    def close(self) -> None:
        """What was put is with the store when this returns."""

    def unfinished(self) -> int:
        """How many jobs the store shows that have not ended; those that run included, if it knows them."""
        raise NotImplementedError

    def work(self) -> None:
        """Be a worker, for ever. Peers with a worker command of their own need none."""
        raise NotImplementedError


class AsyncPeer(Peer):
    """One whose producers await."""

    async def aopen(self) -> None:
        """Connect as a producer does."""

    async def aput(self, number: int) -> None:
        raise NotImplementedError

    async def aput_many(self, numbers: Sequence[int]) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        """What was put is with the store when this returns."""


def run(peer: Peer) -> None:
    """`python -m benchmarks.peers.NAME reset | enqueue N | bulk N | delays N | watch | work`."""
    command, *rest = sys.argv[1:]
    if command in ("reset", "work"):
        getattr(peer, command)()
    elif command == "watch":
        _watch(peer)
    elif isinstance(peer, AsyncPeer):
        print(asyncio.run(_aproduce(peer, command, int(rest[0]))))
    else:
        print(_produce(peer, command, int(rest[0])))
    # Some clients leave threads behind that would keep the process.
    sys.stdout.flush()
    os._exit(0)


def _produce(peer: Peer, command: str, count: int) -> float:
    """The seconds that it took to put so many."""
    peer.open()
    start = time.perf_counter()
    if command == "bulk":
        for first in range(1, count + 1, BULK):
            peer.put_many(range(first, min(count + 1, first + BULK)))
    for number in range(1, count + 1) if command == "enqueue" else ():
        peer.put(number)
    for _ in range(count) if command == "delays" else ():
        time.sleep(_pause())
        # The job's number is the time of its call, on a clock that all processes of a machine share.
        peer.put(time.monotonic_ns())
    seconds = time.perf_counter() - start
    peer.close()
    return seconds


async def _aproduce(peer: AsyncPeer, command: str, count: int) -> float:
    await peer.aopen()
    start = time.perf_counter()
    if command == "bulk":
        for first in range(1, count + 1, BULK):
            await peer.aput_many(range(first, min(count + 1, first + BULK)))
    for number in range(1, count + 1) if command == "enqueue" else ():
        await peer.aput(number)
    for _ in range(count) if command == "delays" else ():
        await asyncio.sleep(_pause())
        await peer.aput(time.monotonic_ns())
    seconds = time.perf_counter() - start
    await peer.aclose()
    return seconds


def _pause() -> float:
    # Long enough for everything to fall asleep, and never in step with a poll.
    return random.uniform(0.03, 0.07)


def _watch(peer: Peer) -> None:
    """For each line that comes in, say when nothing was unfinished any more; for `?`, how much is."""
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "?\n":
            print(peer.unfinished(), flush=True)
            continue
        while peer.unfinished():
            time.sleep(0.005)
        print(time.monotonic_ns(), flush=True)


def empty_postgres() -> None:
    """Remove every schema of the database."""
    import psycopg

    with psycopg.connect(PLACE, autocommit=True) as connection:
        found = connection.execute("select nspname from pg_namespace where nspname !~ '^(pg_|information_schema)'")
        for (name,) in found.fetchall():
            connection.execute(f'drop schema "{name}" cascade')
        connection.execute("create schema public")
        connection.execute("checkpoint")


class Counter:
    """A count by SQL on a connection of its own, which is made at the first question."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._connection: Any = None

    def __call__(self) -> int:
        import psycopg

        if self._connection is None:
            self._connection = psycopg.connect(PLACE, autocommit=True)
            # Without statistics every count would scan the whole table.
            self._connection.execute("set enable_seqscan = off")
        return int(self._connection.execute(self._sql).fetchone()[0])


def empty_redis() -> None:
    redis_client().flushall()


def redis_client() -> Any:
    import redis

    return redis.Redis.from_url(PLACE)
