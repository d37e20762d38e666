"""Places for the trials: a folder, a database of one Postgres server, or a Redis of our own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from tests.postgres_server import Databases

from ..stores import server
from .catalogue import Entry
from .environments import redis_server
from .stage import Stage


class Venue:
    """Servers start when the first entry needs them, and end with the context."""

    def __init__(self, dsn: str | None = None) -> None:
        self._stack = ExitStack()
        self._given = dsn
        self._dsn = ""
        self._redis = ""

    def __enter__(self) -> Venue:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def stage(self, entry: Entry, environment: Path) -> Iterator[Stage]:
        """A new place, removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="holdfast-contest-") as name:
            scratch = Path(name)
            with self._place(entry, scratch) as place:
                yield Stage(entry, environment, place, scratch)

    def settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._dsn:
            with psycopg.connect(self._dsn) as connection:
                for name in ("server_version", "fsync", "synchronous_commit", "shared_buffers"):
                    found[f"Postgres {name}"] = str(connection.execute(f"show {name}").fetchone()[0])  # type: ignore[index]
        if self._redis:
            found["Redis"] = "append-only file, fsync each second"
        return found

    @contextmanager
    def _place(self, entry: Entry, scratch: Path) -> Iterator[str]:
        if entry.needs == "postgres":
            databases = Databases(self._postgres())
            dsn = databases.create()
            try:
                yield _url(dsn)
            finally:
                databases.drop(dsn)
        elif entry.needs == "redis":
            yield self._redis_url()
        else:
            # Holdfast's store is a file, the peers name theirs themselves.
            folder = scratch / "place"
            self._renew(folder)
            yield str(folder / "jobs.db") if entry.ours else str(folder)

    def _renew(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def _postgres(self) -> str:
        if not self._dsn:
            self._dsn = self._stack.enter_context(server(self._given))
        return self._dsn

    def _redis_url(self) -> str:
        if not self._redis:
            self._redis = self._stack.enter_context(_redis())
        return self._redis


def _url(dsn: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgresql://{parts.get('user', 'postgres')}@/{parts['dbname']}?host={parts.get('host', '')}"


@contextmanager
def _redis() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = redis_server()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-") as folder:
        options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "yes"]
        child = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, env=os.environ)
        try:
            _await_port(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            child.terminate()
            child.wait(10)


def _await_port(port: int, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
