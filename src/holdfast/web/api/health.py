"""Health: liveness, readiness and a full check. No token needed. One check serves all requests within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...errors import HoldfastError, SchemaMismatch
from ...model.outbox import PREFIX
from ...model.stats import QueueStats, StoreStats, WorkerStats
from ...model.values import Instant, instant_of
from ...runtime.opening import free_disk
from ...tasks.inventory import Inventory
from ..wire.call import Call
from ..wire.operation import Answered, Group

group = Group("Health", "Health checks for process managers and load balancers. No token needed; no secrets shown.")

_TRUSTED: Final = 1.0
_PATIENCE: Final = 5.0
_LITTLE_SPACE: Final = 256 * 1024 * 1024
_LARGE_WAL: Final = 256 * 1024 * 1024
_OLD_TRANSACTION: Final = 300.0
_BEHIND: Final = 300.0
_MOST_NAMED: Final = 5
Status: TypeAlias = Literal["ok", "degraded", "down"]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A problem. `code` does not change between versions; `message` is for people."""

    code: str
    message: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the whole, and the problems found."""

    status: Status
    reasons: list[Trouble]
    checked_at: Instant
    last_delivery: Instant | None = None
    """The time of the last delivery of an outbox entry or a webhook."""
    last_poll: Instant | None = None
    """The time at which an inventory last answered this process; of several, the one that answered longest ago."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


@group.get("/health/live", needs="nothing")
async def live(call: Call) -> Live:
    """Check that the process is alive."""
    return Live()


@group.get("/health/ready", needs="nothing", also=(503,))
async def ready(call: Call) -> Answered[Health]:
    """Check that requests can be served: the store is reachable and its schema is right."""
    down = await unreachable(call.app)
    return _health(call, datetime.now(UTC), down, ())


@group.get("/health", needs="nothing", also=(503,))
async def health(call: Call) -> Answered[Health]:
    """Check the whole system and list its problems.

    Checked at most once a second.
    """
    found = await check_up(call.app)
    return _health(call, found.at, found.down, found.findings, found.last_delivery, found.last_poll)


def _health(
    call: Call,
    at: datetime,
    down: Finding | None,
    findings: tuple[Finding, ...],
    delivered: int | None = None,
    polled: datetime | None = None,
) -> Answered[Health]:
    named = call.may("read") and not call.identity.tenant
    troubles = [
        Trouble(code=one.code, message=one.message_for(named=named))
        for one in ((down,) if down is not None else findings)
    ]
    status: Status = "down" if down is not None else "degraded" if findings else "ok"
    health = Health(
        status=status, reasons=troubles, checked_at=at, last_delivery=instant_of(delivered), last_poll=polled
    )
    return Answered(health, 503 if down is not None else 200)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. `names` are for callers who may read the store."""

    code: str
    text: str
    names: tuple[str, ...] = ()

    def message_for(self, *, named: bool) -> str:
        if not named or not self.names:
            return self.text
        more = " …" if len(self.names) > _MOST_NAMED else ""
        return f"{self.text}: {', '.join(self.names[:_MOST_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Checkup:
    """The result of one check."""

    at: datetime
    seen: float
    """By the monotonic clock."""
    down: Finding | None = None
    findings: tuple[Finding, ...] = ()
    last_delivery: int | None = None
    last_poll: datetime | None = None


class _SharedCheck:
    """The last result for each app, and the check in progress."""

    def __init__(self) -> None:
        self._last: WeakKeyDictionary[App, Checkup] = WeakKeyDictionary()
        self._coming: WeakKeyDictionary[App, asyncio.Task[Checkup]] = WeakKeyDictionary()

    async def at(self, app: App) -> Checkup:
        last = self._last.get(app)
        if last is not None and SYSTEM_CLOCK.monotonic() - last.seen < _TRUSTED:
            return last
        coming = self._coming.get(app)
        if coming is None or coming.done() or coming.get_loop() is not asyncio.get_running_loop():
            coming = self._coming[app] = asyncio.create_task(_look(app))
        # A request that is cancelled must not cancel the check for the others.
        found = self._last[app] = await asyncio.shield(coming)
        return found


check_up: Final = _SharedCheck().at


async def unreachable(app: App) -> Finding | None:
    """Return why the store is unusable; None if it is usable."""
    try:
        async with asyncio.timeout(_PATIENCE):
            # A write, because a schema that is too new can still be read.
            await app.stats.aprobe()
    except SchemaMismatch:
        return Finding("schema", "the store's schema does not match this version")
    except (HoldfastError, TimeoutError):
        return Finding("store", "the store does not answer")
    return None


async def _look(app: App) -> Checkup:
    at, seen = datetime.now(UTC), SYSTEM_CLOCK.monotonic()
    if (down := await unreachable(app)) is not None:
        return Checkup(at, seen, down)
    try:
        async with asyncio.timeout(_PATIENCE):
            queues, workers = await app.stats.aqueues(), await app.stats.aworkers()
            store = await app.stats.astore()
            outboxes = [queue.name.removeprefix(PREFIX) for queue in queues if queue.name.startswith(PREFIX)]
            delivered = await app.outbox.alast_delivery(outboxes)
    except (HoldfastError, TimeoutError):
        return Checkup(at, seen, Finding("store", "the store does not answer"))
    found = (*_of_queues(queues), *_of_workers(workers), *_of_store(store), *_of_disk(app), *_of_inventories(app))
    polled = min((one.last_poll for one in _inventories(app) if one.last_poll is not None), default=None)
    return Checkup(at, seen, None, found, delivered, polled)


def _of_queues(queues: Sequence[QueueStats]) -> Iterator[Finding]:
    due = [queue for queue in queues if queue.oldest_due_age is not None and not queue.is_paused]
    if unserved := tuple(queue.name for queue in due if not queue.workers):
        yield Finding("unserved", f"{_have(unserved, 'queue', 'queues')} due jobs but no worker", unserved)
    late = [queue for queue in due if queue.name.startswith(PREFIX) and (queue.oldest_due_age or 0.0) > _BEHIND]
    if behind := tuple(queue.name.removeprefix(PREFIX) for queue in late if queue.workers):
        yield Finding(
            "outbox_behind", f"{_have(behind, 'outbox', 'outboxes')} delivered nothing for several minutes", behind
        )


def _of_workers(workers: Sequence[WorkerStats]) -> Iterator[Finding]:
    if lost := tuple(worker.name for worker in workers if worker.state == "lost"):
        yield Finding("workers_lost", f"{len(lost)} workers have not renewed their lease", lost)


def _of_store(store: StoreStats) -> Iterator[Finding]:
    if (store.wal_bytes or 0) > _LARGE_WAL:
        yield Finding("wal_large", "the write-ahead log is large: a long read is open")
    if (store.oldest_transaction or 0.0) > _OLD_TRANSACTION:
        yield Finding("old_snapshot", "a transaction has been open for minutes, which slows down every queue")


def _of_inventories(app: App) -> Iterator[Finding]:
    if degraded := tuple(sorted(one.name for one in _inventories(app) if one.degraded)):
        yield Finding(
            "inventory_degraded", f"{len(degraded)} inventories cannot be reached, so every name is accepted", degraded
        )


def _inventories(app: App) -> set[Inventory]:
    return {one for task in app.tasks.values() if (one := task.task_options.inventory) is not None}


def _of_disk(app: App) -> Iterator[Finding]:
    free = free_disk(app.config)
    if free is not None and free < _LITTLE_SPACE:
        yield Finding("store_full", "the disk of the store is nearly full")


def _have(names: Sequence[str], one: str, several: str) -> str:
    return f"1 {one} has" if len(names) == 1 else f"{len(names)} {several} have"
