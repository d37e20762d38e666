"""The two kinds of store under measurement: fresh databases of each, on a server as durable as one should be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from tests.postgres_server import private_server


class Bench(Protocol):
    """A kind of store: fresh databases, bare loops on them, and when one is empty."""

    @property
    def name(self) -> str: ...

    def fresh(self) -> AbstractContextManager[str]:
        """The URL of a new database with Holdfast's schema."""
        ...

    def settings(self) -> dict[str, str]: ...

    def enqueue_one(self, count: int) -> float: ...

    def enqueue_bulk(self, calls: int) -> float: ...

    def drain(self, count: int) -> float: ...

    def await_empty(self, url: str, look: Callable[[], None] = ...) -> None:
        """Block until the store shows nothing that is ready or running. `look` is called each time."""
        ...

    def add_finished(self, url: str, rows: int) -> None:
        """History: that many jobs which succeeded long ago."""
        ...

    def analyse(self, url: str) -> None:
        """What the server itself does by and by."""
        ...


@contextmanager
def folder() -> Iterator[Path]:
    """Where SQLite files go: on the disk of the system's temporary files, which TMPDIR can name."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        yield Path(name)


@contextmanager
def server(dsn: str | None = None) -> Iterator[str]:
    """The DSN of a Postgres: the one given, or a new one of the wheel."""
    if dsn:
        yield dsn
        return
    # The tests' own servers turn fsync off.
    with private_server(fsync="on", synchronous_commit="on", shared_buffers="128MB", max_connections="1000") as own:
        yield own.dsn
