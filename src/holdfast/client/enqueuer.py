"""Enqueue: one or many, blocking or awaiting, in our own transaction or in the caller's."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from .. import importing
from ..errors import InvalidInput
from ..ids import ids
from ..model.jobs import Enqueued, JobSpec
from ..storage.ops.jobs import enqueue as ops
from ..storage.port import ListOp, Op, Store, Tx
from ..tasks.inventory import Inventory
from ..tasks.job import Job
from ..tasks.task import JobRequest
from .calls import composed
from .jobs import Jobs
from .lines import Line
from .specs import spec_of
from .transactions import innermost, joined

if TYPE_CHECKING:
    from .spill import Spill

R = TypeVar("R")
Some = TypeVar("Some", bound="Sequence[JobRequest[Any]]")


MOST_AT_ONCE: Final = 10_000
_ONE: Final = "enqueue"
_MANY: Final = "enqueue_many"
"""The operations under which they are timed: many at once take longer."""


Around: TypeAlias = "Callable[[Sequence[JobRequest[Any]]], AbstractContextManager[str | None]]"
"""A context entered around each enqueue; its value is stored as the jobs' trace: JSON, or None."""
Record: TypeAlias = "Callable[[Tx, JobSpec], Coroutine[Any, Any, Enqueued]]"
"""Enqueues a job in a transaction, and records there that it did."""
_NOTHING: Final[AbstractContextManager[str | None]] = nullcontext()


def both(outer: Around, inner: Around) -> Around:
    """Return one context for two, which stores the values of both."""

    @contextmanager
    def around(requests: Sequence[JobRequest[Any]]) -> Iterator[str | None]:
        with outer(requests) as first, inner(requests) as second:
            texts = [text for text in (first, second) if text is not None]
            yield texts[0] if len(texts) == 1 else _merged(texts)

    return around


def _merged(texts: Sequence[str]) -> str | None:
    merged: dict[str, Any] = {}
    for text in texts:
        merged |= json.loads(text)
    return json.dumps(merged) if merged else None


class Enqueuer:
    """Turns requests into stored jobs."""

    def __init__(self, store: Callable[[], Store], jobs: Jobs, spill: Spill | None = None) -> None:
        """`spill` keeps jobs while the store is unavailable."""
        self._store = store
        self._jobs = jobs
        self.around: Around | None = None
        self.ambient = False
        """True if the store finds open transactions by itself, as that of a Django project does."""
        self.spill: Final = spill

    def tracing(self, requests: Sequence[JobRequest[Any]]) -> AbstractContextManager[str | None]:
        """Return the context to enter around an enqueue, with the trace to store."""
        return _NOTHING if self.around is None else self.around(requests)

    # The two forms of `one` are written by hand: each call between a task and its INSERT counts.

    def one(self, request: JobRequest[R], tenant: str) -> Job[R]:
        """Store one job."""
        if importing.module is not None:
            importing.warn_of_enqueue()
        if request.task.task_options.inventory is not None:
            check_inventory((request,))
        with _NOTHING if self.around is None else self.around((request,)) as trace:
            spec, connection = spec_of(request, tenant=tenant, trace=trace), request.options.connection
            if innermost() is not None or self.ambient:
                connection = joined(self._store, connection)
            if connection is not None:
                answers = self._store().within(connection, _keyed([spec]))
            elif self.spill is not None:
                answers = self.spill.put([spec], lambda: self.write([spec]))
            else:
                answers = self.write([spec])
        return self._handle(request, answers[0])

    def write(self, specs: list[JobSpec]) -> list[Enqueued]:
        """Store jobs in a transaction of our own."""
        if len(specs) == 1 and specs[0].is_keyless:
            return self._store().write_list(ListOp(ops.enqueue_keyless, specs, _ONE))
        return self._store().write(_own(specs))

    async def aone(self, request: JobRequest[R], tenant: str) -> Job[R]:
        """Store one job."""
        if importing.module is not None:
            importing.warn_of_enqueue()
        if request.task.task_options.inventory is not None:
            await acheck_inventory((request,))
        with _NOTHING if self.around is None else self.around((request,)) as trace:
            spec, connection = spec_of(request, tenant=tenant, trace=trace), request.options.connection
            if innermost() is not None or self.ambient:
                connection = joined(self._store, connection)
            if connection is not None:
                answers = await self._store().awithin(connection, _keyed([spec]))
            elif self.spill is not None:
                answers = await self.spill.aput([spec], lambda: self.awrite([spec]))
            else:
                answers = await self.awrite([spec])
        return self._handle(request, answers[0])

    def awrite(self, specs: list[JobSpec]) -> Coroutine[Any, Any, list[Enqueued]]:
        """The async version of `write`."""
        if len(specs) == 1 and specs[0].is_keyless:
            return self._store().awrite_list(ListOp(ops.enqueue_keyless, specs, _ONE))
        return self._store().awrite(_own(specs))

    @composed
    async def recorded(self, line: Line, request: JobRequest[R], tenant: str, record: Record) -> Job[R]:
        """Enqueue for a durable task: `record` enqueues, and writes in the same commit that it did."""
        with self.tracing(await line.call(check_inventory, acheck_inventory, (request,))) as trace:
            spec = spec_of(request, tenant=tenant, trace=trace)
            op = Op(lambda tx: record(tx, spec), name=_ONE)
            answer = await line.join(joined(self._store, request.options.connection), op)
        return self._handle(request, answer)

    arecorded = recorded.awaiting

    @composed
    async def many(
        self, line: Line, requests: Sequence[JobRequest[Any]], tenant: str, connection: object | None
    ) -> list[Job[Any]]:
        """Store several jobs in one transaction."""
        if importing.module is not None:
            importing.warn_of_enqueue()
        with self.tracing(await line.call(check_inventory, acheck_inventory, requests)) as trace:
            specs, given = _bulk(requests, tenant, connection, trace)
            if (connection := joined(self._store, given)) is not None:
                answers = await line.join(connection, _keyed(specs))
            elif (spill := self.spill) is not None:
                answers = await line.call(
                    lambda: spill.put(specs, lambda: self.write(specs)),
                    lambda: spill.aput(specs, lambda: self.awrite(specs)),
                )
            else:
                answers = await line.call(self.write, self.awrite, specs)
        return [self._handle(request, answer) for request, answer in zip(requests, answers, strict=True)]

    amany = many.awaiting

    def _handle(self, request: JobRequest[R], answer: Enqueued) -> Job[R]:
        return Job(self._jobs, answer.id, created=answer.created, task=request.task.name)


def check_inventory(requests: Some) -> Some:
    """Raise NotInInventory for the first job whose affinity is not in its task's inventory."""
    for inventory, name in _wanted(requests):
        inventory.check(name)
    return requests


async def acheck_inventory(requests: Some) -> Some:
    for inventory, name in _wanted(requests):
        await inventory.acheck(name)
    return requests


def _wanted(requests: Sequence[JobRequest[Any]]) -> list[tuple[Inventory, str]]:
    wanted: dict[tuple[int, str], tuple[Inventory, str]] = {}
    for request in requests:
        options = request.task.task_options
        if options.inventory is not None:
            name = options.affinity if request.options.affinity is ... else request.options.affinity
            if name is not None:
                wanted[id(options.inventory), name] = (options.inventory, name)
    return list(wanted.values())


def _own(specs: Sequence[JobSpec]) -> Op[list[Enqueued]]:
    """Enqueue in a transaction of our own, which is never run again once it may have been committed."""
    if len(specs) > 1 and all(spec.is_keyless for spec in specs):
        return Op(lambda tx: ops.enqueue_fresh(tx, specs), name=_MANY)
    return _keyed(specs)


def _keyed(specs: Sequence[JobSpec]) -> Op[list[Enqueued]]:
    name = _ONE if len(specs) == 1 else _MANY
    if all(spec.is_keyless for spec in specs):
        return Op(lambda tx: ops.enqueue_keyless(tx, specs), single=len(specs) == 1, name=name)
    return Op(lambda tx: ops.enqueue(tx, specs), name=name)


def _bulk(
    requests: Sequence[JobRequest[Any]], tenant: str, connection: object | None, trace: str | None
) -> tuple[list[JobSpec], object | None]:
    if len(requests) > MOST_AT_ONCE:
        raise InvalidInput(f"{len(requests):,} jobs in one call are too many; send at most {MOST_AT_ONCE:,} at a time")
    given = {id(c): c for r in requests if (c := r.options.connection) is not None}
    if connection is not None:
        given[id(connection)] = connection
    if len(given) > 1:
        raise InvalidInput("one call can join one transaction only; the jobs name several connections")
    # Made in one go and in the caller's order, so that the batch is first in, first out.
    fresh = ids.many(len(requests))
    named = zip(requests, fresh, strict=True)
    specs = [spec_of(request, tenant=tenant, id=new, trace=trace) for request, new in named]
    return specs, next(iter(given.values()), None)


def spill_at(folder: str | None, store: Callable[[], Store]) -> Spill | None:
    """Return the spill in that folder. Imported only if one is used: its locks need Unix."""
    if folder is None:
        return None
    from .spill import Spill

    return Spill(folder, store)
