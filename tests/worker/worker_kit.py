"""A shop: an app on a store of its own, and workers for it that a test starts, watches and stops."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from holdfast import App, Context, Job
from holdfast.clock import SYSTEM_CLOCK, ManualClock
from holdfast.errors import OutcomeUnknown, StorageUnavailable
from holdfast.model.jobs import JobRecord
from holdfast.rules.retry import RetryPolicy
from holdfast.storage.port import Op
from holdfast.tasks.task import Task
from holdfast.worker.processes.identity import process_key
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.worker import Worker
from tests.patience import SOON

T = TypeVar("T")

AT_ONCE = RetryPolicy(kind="none")
# Of a test: longer than it waits for one thing, and shorter than the poll.
_LONGEST = 45.0
# Only wake-ups make a worker look in time, no poll: a lost one is a test that takes too long. Its loops are off, so
# that nothing writes but what the test is about.
QUIET: dict[str, Any] = {"poll": 60.0, "block_warning": 0.0} | {
    field.name: 0.0 for field in fields(WorkerSettings) if field.name.endswith("_interval")
}


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(_LONGEST):
                await test(*args, **kwargs)

        asyncio.run(main())

    return run


class Shop:
    """`clock` is None where real time shall pass."""

    def __init__(self, url: str, clock: ManualClock | None) -> None:
        self.url = url
        self.app = App(url, clock=clock)
        self.store = UnreliableStore(self.app.open())
        self._clock = clock

    @property
    def clock(self) -> ManualClock:
        assert self._clock is not None
        return self._clock

    def borrow(self, other: App) -> App:
        """Take the tasks and the middleware of an app that a child process can import."""
        for task in other.tasks.values():
            self.app._keep(task)
        self.app._middleware += other._middleware
        self.app._resources = other._resources
        return self.app

    def worker(
        self,
        tasks: Mapping[str, Task[Any, Any]] | None = None,
        declarations: Sequence[Op[None]] = (),
        on_broken: Callable[[], object] = lambda: None,
        **settings: Any,
    ) -> Worker:
        """One that is not started."""
        return Worker(
            self.store,  # type: ignore[arg-type]
            self.app.tasks if tasks is None else tasks,
            WorkerSettings(**{**QUIET, **settings}),
            app=self.app,
            middleware=self.app._middleware,
            declarations=declarations,
            clock=self._clock or SYSTEM_CLOCK,
            random=lambda: 0.5,
            on_broken=on_broken,
        )

    @asynccontextmanager
    async def working(
        self, tasks: Mapping[str, Task[Any, Any]] | None = None, **settings: Any
    ) -> AsyncIterator[Worker]:
        worker = self.worker(tasks, **settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop(grace=0)

    async def pass_time(self, seconds: float, *workers: Worker) -> None:
        """Let time pass for the store and for these workers, who keep their leases all the while."""
        self.clock.advance(seconds)
        for worker in workers:
            # On the loop's own thread: nothing may begin between the leap of the clock and the beat.
            worker.lease.heartbeat.run_once()
            worker.deadlines.run_once()
            worker.outcomes.request_claim()
        await asyncio.sleep(0)

    async def pass_time_silently(self, seconds: float, *workers: Worker) -> None:
        """Let time pass without a heartbeat."""
        self.clock.advance(seconds)
        for worker in workers:
            worker.deadlines.run_once()
        await asyncio.sleep(0)

    async def beat(self, worker: Worker) -> bool:
        """One heartbeat, heard by the worker."""
        self.clock.advance(0.001)
        renewed = await asyncio.to_thread(worker.lease.heartbeat.run_once)
        await asyncio.sleep(0)
        return renewed

    async def until(self, job: Job[Any], wanted: Callable[[JobRecord], bool]) -> JobRecord:
        """Wait until a job's row is as wanted; whatever a worker records rings."""
        listener = self.app.open().wakeups.listen(["finished", "queue:default", "cancel"])
        try:
            while not wanted(record := await job.astatus()):
                await listener.await_ring(0.2)
        finally:
            listener.close()
        return record

    async def until_again(self, job: Job[Any], reason: str) -> JobRecord:
        """Wait until a job is ready again for that reason."""
        return await self.until(job, lambda r: r.state == "ready" and r.reason == reason)

    async def until_ended(self, job: Job[Any]) -> JobRecord:
        await job.await_(SOON)
        return await job.astatus()

    def alter(self, statement: str, *values: object) -> None:
        """Change the database behind the store's back."""
        if self.store.backend == "postgres":
            import psycopg

            with psycopg.connect(self.url) as connection:
                connection.execute(statement.replace("?", "%s"), values)
        else:
            connection = self.app.connect()
            with connection:
                connection.execute(statement, values)
            connection.close()


class UnreliableStore:
    """A store that can be down, and lose the reply of a write after its commit."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.down = False
        self.replies_to_lose = 0
        self.writes = 0
        self.reads = 0
        self.before: Callable[[], Awaitable[None]] | None = None
        """Called once, before the next awaited write."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """Called once, between the commit of the next awaited write and its reply."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, op: Op[T]) -> T:
        self._check()
        return self._store.write(op)  # type: ignore[no-any-return]

    async def awrite(self, op: Op[T]) -> T:
        self._check()
        self.writes += 1
        before, self.before = self.before, None
        if before:
            await before()
        answer: T = await self._store.awrite(op)
        after, self.after = self.after, None
        if after:
            await after()
        if self.replies_to_lose:
            self.replies_to_lose -= 1
            raise OutcomeUnknown("the connection broke at COMMIT")
        return answer

    def read(self, op: Op[T]) -> T:
        self._check()
        return self._store.read(op)  # type: ignore[no-any-return]

    async def aread(self, op: Op[T]) -> T:
        self._check()
        self.reads += 1
        return await self._store.aread(op)  # type: ignore[no-any-return]

    def _check(self) -> None:
        if self.down:
            raise StorageUnavailable("the store is down")


async def read_pipe(pipe: Path) -> str:
    """What a job says through a named pipe."""
    # Opened for both, so that neither the opening nor a job that says nothing blocks for ever.
    channel = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        await ready.wait()
        return os.read(channel, 4096).decode()
    finally:
        loop.remove_reader(channel)
        os.close(channel)


def key_of(pid: str) -> str:
    """A process's name, as a worker of that process would register it."""
    scope = process_key().rsplit(":", 2)[0]
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{scope}:{pid}:{ticks}"


def endless(shop: Shop) -> tuple[Any, asyncio.Queue[str]]:
    """A task that runs until it is cancelled, and tells by whom it was begun."""
    begun: asyncio.Queue[str] = asyncio.Queue()

    @shop.app.task(retry=AT_ONCE, name="endless")
    async def endless(ctx: Context) -> None:
        begun.put_nowait(ctx.fence)
        await asyncio.Event().wait()

    return endless, begun
