"""The checks of `holdfast doctor`. Only a problem makes the exit code 1."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from ..config import unknown_variables
from ..errors import HoldfastError
from ..model.routing import Stranded
from ..model.workers import Worker
from ..runtime.database import Database
from ..runtime.opening import filesystem_of
from ..shapes.workers import worker_state
from ..version import VERSION

Weight = Literal["ok", "note", "problem"]
Facts = Mapping[str, object]

_LITTLE_SPACE: Final = 256 * 1024 * 1024
_MUCH_SKEW: Final = 2.0
_LONG_TRANSACTION: Final = 300.0


@dataclass(frozen=True, slots=True)
class Check:
    """A finding of one check."""

    name: str
    weight: Weight
    text: str


def versions() -> dict[str, str]:
    found = {
        "holdfast": VERSION,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    for package in ("psycopg", "msgspec", "click", "rich"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def check_runtime() -> Iterator[Check]:
    if sqlite3.threadsafety != 3:
        yield Check("sqlite", "problem", "this Python's SQLite is not built for use by several threads")


def check_variables(environment: Mapping[str, str]) -> Iterator[Check]:
    for text in unknown_variables(environment).values():
        yield Check("settings", "problem", text)


def check_schema(database: Database) -> Iterator[Check]:
    steps = database.steps()
    if newer := [step.name for step in steps if not step.known]:
        yield Check("schema", "problem", f"it is newer than this Holdfast ({newer[-1]}); upgrade Holdfast here")
    elif pending := [step.name for step in steps if step.applied_at is None]:
        yield Check(
            "schema", "problem", f'{len(pending)} migrations are pending ({pending[0]} …); run "holdfast db migrate"'
        )
    else:
        yield Check("schema", "ok", f"up to date ({steps[-1].name})")


def check_write(database: Database) -> Iterator[Check]:
    try:
        seconds = database.probe_write()
    except HoldfastError as error:
        yield Check("write", "problem", f"a test write failed: {error}")
    else:
        yield Check("write", "ok", f"a test write took {seconds * 1000:.1f} ms")


def check_clock(database: Database) -> Iterator[Check]:
    ahead = database.clock_difference()
    text = f"the store's clock is {abs(ahead) * 1000:,.0f} ms {'ahead of' if ahead >= 0 else 'behind'} this machine's"
    yield Check("clock", "note" if abs(ahead) > _MUCH_SKEW else "ok", text)


def check_facts(facts: Facts) -> Iterator[Check]:
    """Check what the database reports."""
    if facts.get("backend") == "sqlite":
        bug = str(facts.get("wal_reset_bug"))
        yield Check("sqlite", "ok" if bug == "fixed" else "note", f"{facts['sqlite_version']}, WAL-reset bug: {bug}")
        if facts.get("synchronous") != "full":
            yield Check("durability", "note", "durable=False: the last commits before a power failure may be lost")
        if facts.get("auto_vacuum") == "none" and _number(facts, "free_pages") > 0.5 * _number(facts, "page_count"):
            yield Check("size", "note", "over half of the file is empty; run VACUUM")
        return
    if facts.get("in_recovery"):
        yield Check("postgres", "problem", "this server is a standby and refuses writes; connect to the primary")
    if facts.get("fsync") == "off":
        yield Check("durability", "problem", "fsync is off: a crash of the server may corrupt the database")
    if facts.get("synchronous_commit") == "off":
        yield Check("durability", "note", "synchronous_commit is off: the last commits before a crash may be lost")
    if _number(facts, "oldest_transaction_seconds") > _LONG_TRANSACTION:
        age = _number(facts, "oldest_transaction_seconds")
        yield Check("postgres", "note", f"a transaction has been open for {age:,.0f} s, which slows down every queue")
    if _number(facts, "connections") > 0.8 * _number(facts, "max_connections", 1e9):
        yield Check("postgres", "note", f"{facts['connections']} of {facts['max_connections']} connections are in use")
    if _number(facts, "notify_queue_usage") > 0.5:
        yield Check("postgres", "note", "the NOTIFY queue is more than half full: a listener is not reading")


def check_file(file: Path | None) -> Iterator[Check]:
    if file is None:
        return
    folder = file.parent
    free = shutil.disk_usage(folder).free
    kind = filesystem_of(file) or "unknown"
    weight: Weight = "problem" if free < _LITTLE_SPACE else "ok"
    yield Check("filesystem", weight, f"{kind}, {free / 2**30:,.1f} GiB free")
    if os.name == "posix" and file.exists() and file.stat().st_mode & 0o077:
        yield Check("filesystem", "note", f"other users can read {file}, which contains the arguments of every job")


def check_workers(workers: Sequence[Worker]) -> Iterator[Check]:
    alive = [worker for worker in workers if worker_state(worker) == "alive"]
    lost = [worker for worker in workers if worker_state(worker) in ("lost", "dead")]
    names = ", ".join(worker.name for worker in alive[:5]) + (" …" if len(alive) > 5 else "")
    yield Check("workers", "ok" if alive else "note", f"{len(alive)} alive: {names}" if alive else "no live workers")
    if lost:
        doing = "a live worker will rescue their jobs" if alive else "their jobs wait until a worker starts"
        yield Check("workers", "note", f"{len(lost)} lost: {', '.join(w.name for w in lost[:5])}; {doing}")


def check_stranded(stranded: Sequence[Stranded]) -> Iterator[Check]:
    for item in stranded:
        first = f"{item.job_id} and others like it: " if item.job_id else ""
        yield Check("queues", "note", f"{item.queue}: {first}{item.text}")


def _number(facts: Facts, name: str, default: float = 0.0) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) else default
