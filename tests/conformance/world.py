"""One store, driven in one of the ways that callers have, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import psycopg

from holdfast.clock import SECOND, ManualClock
from holdfast.ids import ids, token
from holdfast.model.events import Event, events_of
from holdfast.model.jobs import Attempt, Claimed, Dedupe, Enqueued, JobRecord, JobSpec, JobState
from holdfast.model.outcomes import Done, Failed, Finish, Outcome, Parked, Suspended, Verdict
from holdfast.model.routing import Route
from holdfast.model.signals import Wait
from holdfast.model.values import instant_of
from holdfast.model.workers import Rescue, WorkerSpec
from holdfast.storage.ops import events
from holdfast.storage.ops.flows import edges
from holdfast.storage.ops.jobs import actions, claims, enqueue, finishing, queries
from holdfast.storage.ops.jobs.claims import ClaimRequest, encode_routes
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Store, Tx
from holdfast.storage.statements import Statement

T = TypeVar("T")

LEASE = 30 * SECOND
ERROR = '{"type": "Boom", "message": "it broke"}'
_KEPT = {"holdfast_migration", "holdfast_meta"}
SHOWN = {"holdfast_waitpoint": "id, job_id, key, name, kid, schema, expires_at, closed_at, generation, once"}
_OUR_TABLES = Statement(
    "our_tables",
    "select name from sqlite_master where type = 'table' and name like 'holdfast_%'",
    "select tablename from pg_tables where schemaname = current_schema() and tablename like 'holdfast_%'",
)


class Way(Protocol):
    """How a caller runs an operation that changes something."""

    def __call__(self, op: Op[T], /) -> T: ...


@dataclass
class World:
    """A store with the verbs of the tests."""

    store: Store
    clock: ManualClock
    way: Way
    connect: Callable[[], Any]
    """A connection of the caller's own; it is in no transaction."""
    is_on_disk: bool = True
    """Whether readers have connections apart from the writer's."""
    _names: Any = field(default_factory=itertools.count)

    @property
    def backend(self) -> str:
        return self.store.backend

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def instant(self) -> datetime:
        """The time, as the client shows it."""
        return instant_of(self.now)

    def run(self, op: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation in this world's way."""
        return self.way(Op(lambda tx: op(tx, *args, **kwargs)))

    def read(self, op: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return self.store.read(Op(lambda tx: op(tx, *args, **kwargs)))

    def sql(self, text: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run one statement of the test's own."""

        async def run(tx: Tx) -> list[tuple[Any, ...]]:
            return await tx.all(Statement("test", text, text), **params)

        return self.store.write(Op(run))

    def wipe(self) -> None:
        """Leave nothing but the schema."""

        async def run(tx: Tx) -> None:
            found = {name for (name,) in await tx.all(_OUR_TABLES)} - _KEPT
            # What refers to jobs goes before them, what their end leaves after them.
            left = ("holdfast_hop", "holdfast_event", "holdfast_event_inbox", "holdfast_event_mark")
            tables = sorted(found, key=lambda name: (name in left, name == "holdfast_job", name))
            deletes = [f"delete from {table}" for table in tables]
            if self.backend == "postgres":
                deletes = [f"do $$ begin {'; '.join(deletes)}; end $$"]  # in one round trip
            for delete in deletes:
                await tx.one(Statement("wipe", delete, delete))

        self.store.write(Op(run))

    def dump(self, without: Collection[str] = ()) -> dict[str, set[tuple[Any, ...]]]:
        """Every row of every table, but for the note that a waitpoint keeps of refused tokens."""

        async def run(tx: Tx) -> dict[str, set[tuple[Any, ...]]]:
            found: dict[str, set[tuple[Any, ...]]] = {}
            for (table,) in await tx.all(_OUR_TABLES):
                if table not in without:
                    shown = f"select {SHOWN.get(table, '*')} from {table}"
                    found[table] = set(await tx.all(Statement("dump", shown, shown)))
            return found

        return self.store.read(Op(run))

    def name(self, stem: str) -> str:
        """A name that no other part of this test uses."""
        return f"{stem}-{next(self._names)}"

    # -- jobs

    def enqueue(self, *specs: JobSpec) -> list[Enqueued]:
        return self.run(enqueue.enqueue, specs)

    def add(self, **fields: Any) -> str:
        """Enqueue one job; its id."""
        (answer,) = self.enqueue(spec(**fields))
        return answer.id

    def job(self, job_id: str) -> JobRecord:
        return self.read(queries.get_job, job_id)

    def jobs(self) -> int:
        return int(self.sql("select count(*) from holdfast_job")[0][0])

    def history(self, job_id: str) -> list[Attempt]:
        return self.read(queries.attempts_of, job_id)

    def events(self) -> list[Event]:
        """Everything that the log tells."""
        self.store.write(Op(events.relay))
        page = self.read(events.read, 0, 10_000)
        return [event for chunk in page.chunks for _, event in events_of(chunk)]

    def row(self, job_id: str) -> tuple[Any, ...]:
        """Every column, to show that nothing changed."""
        return self.sql("select * from holdfast_any_job where id = :id", id=job_id)[0]

    # -- workers

    def worker(self, name: str | None = None, *, queues: Sequence[str] = ("default",), **fields: Any) -> str:
        """Register a worker; its id."""
        spec = worker_spec(name or self.name("worker"), queues=tuple(queues), **fields)
        self.run(workers.register, spec)
        return spec.id

    def claim(self, owner: str, n: int = 10, **options: Any) -> list[Claimed]:
        return self.run(claims.claim, claim_request(owner, n, **options))

    def take(self, owner: str, **options: Any) -> Claimed:
        """Claim exactly one job."""
        (job,) = self.claim(owner, 1, **options)
        return job

    def finish(self, owner: str, job: Claimed, outcome: Outcome) -> Verdict:
        (verdict,) = self.run(finishing.finish, owner, [Finish(job.id, job.epoch, outcome)])
        return verdict

    def rescue(self, worker_id: str, **options: Any) -> Rescue:
        return self.run(workers.rescue, worker_id, **options)

    def lose(self, worker_id: str) -> list[str]:
        """Let a worker's lease run out and rescue all it owned."""
        self.clock.advance(LEASE / SECOND + 1)
        rescued: list[str] = []
        while (page := self.rescue(worker_id)).more:
            rescued += page.rescued
        return rescued

    def lose_twice(self, worker_id: str) -> list[str]:
        """Lose a worker, and then the next one that has its jobs: all of them are suspects."""
        lost = self.lose(worker_id)
        self.clock.advance(2)
        again = self.worker()
        claimed = self.claim(again, len(lost), queues=sorted({self.job(id).queue for id in lost}))
        assert sorted(job.id for job in claimed) == sorted(lost)
        return self.lose(again)

    # -- states

    def place(self, state: JobState, **fields: Any) -> Placed:
        """A job in that state, alone in a queue of its own, with the worker and epoch that had it last."""
        queue = self.name("queue")
        owner = self.worker(queues=[queue])
        job_id = self.add(queue=queue, **fields)
        placed = Placed(job_id, queue, owner)
        _PATHS[state](self, placed)
        assert self.job(job_id).state is state
        return placed

    def take_placed(self, placed: Placed) -> Claimed:
        job = self.take(placed.owner, queues=[placed.queue])
        placed.epoch = job.epoch
        return job

    def end_placed(self, placed: Placed, outcome: Outcome) -> None:
        self.finish(placed.owner, self.take_placed(placed), outcome)


@dataclass
class Placed:
    """A job that a test has put where it wants it."""

    id: str
    queue: str
    owner: str
    epoch: int = 0
    """Of its last claim."""


def spec(**fields: Any) -> JobSpec:
    """A job to enqueue; `queue` and `key` stand for the route and the dedupe key."""
    queue, key = fields.pop("queue", "default"), fields.pop("key", None)
    if key is not None:
        names = ("scope", "until", "window", "on_duplicate")
        chosen = {name: fields.pop(name) for name in names if name in fields}
        fields["dedupe"] = Dedupe(key=key, **{"scope": "work", **chosen})
    fields = {"id": ids.new(), "task": "work", "route": Route(queue), "payload": "{}", **fields}
    return JobSpec(**fields)


def worker_spec(id: str, **fields: Any) -> WorkerSpec:
    known: dict[str, Any] = {
        "name": id, "host": "here", "pid": 1, "process_key": "here:1", "queues": ("default",), "tasks": ("work",),
        "concurrency": 10, "version": "1", "lease": LEASE,
    }  # fmt: skip
    return WorkerSpec(id=id, **{**known, **fields})


def claim_request(
    owner: str,
    n: int = 10,
    *,
    queues: Sequence[str] = ("default",),
    tiers: Sequence[Sequence[Route]] = (),
    **options: Any,
) -> ClaimRequest:
    """A claim of queues in strict order, or of routes by tiers."""
    routes = encode_routes(tiers or [[Route(queue)] for queue in queues])
    return ClaimRequest(**{"owner": owner, "token": token(), "routes": routes, "n": n, **options})


# -- the three ways


def by_write(store: Store) -> Way:
    return store.write


class ByAwrite:
    """One event loop for all calls, as a program has."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runner = asyncio.Runner()

    def __call__(self, op: Op[T]) -> T:
        return self._runner.run(self._store.awrite(op))

    def close(self) -> None:
        self._runner.close()


class InOwnTransaction:
    """The caller opens a connection and a transaction, and commits it."""

    def __init__(self, store: Store, connect: Callable[[], Any]) -> None:
        self._store = store
        self._connection = connect()

    def __call__(self, op: Op[T]) -> T:
        begin(self._connection)
        try:
            answer = self._store.within(self._connection, op)
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()
        return answer

    def close(self) -> None:
        self._connection.close()


def begin(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("begin immediate")
    else:
        connection.execute("select 1")  # psycopg begins by itself
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


# -- how a job comes into each state


def _stay(world: World, placed: Placed) -> None:
    pass


def _run(world: World, placed: Placed) -> None:
    world.take_placed(placed)


def _block(world: World, placed: Placed) -> None:
    world.end_placed(placed, Parked("auth", ERROR))


def _suspend(world: World, placed: Placed) -> None:
    world.end_placed(placed, Suspended(Wait(key="wait:somebody#1", reason="operator")))


def _succeed(world: World, placed: Placed) -> None:
    world.end_placed(placed, Done('"fine"'))


def _fail(world: World, placed: Placed) -> None:
    world.end_placed(placed, Failed("permanent", ERROR))


def _cancel(world: World, placed: Placed) -> None:
    world.run(actions.cancel, placed.id)


def _expire(world: World, placed: Placed) -> None:
    world.sql("update holdfast_live set deadline = :now where id = :id", id=placed.id)
    world.run(finishing.expire_jobs)


def _skip(world: World, placed: Placed) -> None:
    world.run(edges.block, [placed.id])
    world.run(edges.settle, [edges.Counted(placed.id, awaits=1, spare=-1, rest="run")])


_PATHS: dict[JobState, Callable[[World, Placed], None]] = {
    JobState.READY: _stay,
    JobState.RUNNING: _run,
    JobState.BLOCKED: _block,
    JobState.SUSPENDED: _suspend,
    JobState.SUCCEEDED: _succeed,
    JobState.FAILED: _fail,
    JobState.CANCELLED: _cancel,
    JobState.EXPIRED: _expire,
    JobState.SKIPPED: _skip,
}
