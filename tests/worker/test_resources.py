"""Resources: opened when they are needed, given by type, and closed whatever becomes of the run."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NewType

import pytest

import holdfast
from holdfast import App, Context, Fail, Job, SyncContext, injected
from holdfast.errors import ConfigError, InvalidArguments, ResourceFailed
from holdfast.testing import drain, inline, isolated, override_resource
from tests.patience import SOON

from . import resource_tasks
from .worker_kit import AT_ONCE, Shop, live, read_pipe


class Pool:
    def __init__(self, name: str = "pool") -> None:
        self.name = name


class Session:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool


Slow = NewType("Slow", Pool)
Odd = NewType("Odd", Pool)


def with_resources(app: App) -> list[str]:
    """Give the app an async resource of the worker and a sync one of each run; return what happens to them."""
    seen: list[str] = []

    @app.resource(scope="worker")
    async def pool() -> AsyncIterator[Pool]:
        seen.append("pool opens")
        yield Pool()
        await asyncio.sleep(0)
        seen.append("pool closes")

    @app.resource
    def session(pool: Pool) -> Iterator[Session]:
        seen.append("session opens")
        try:
            yield Session(pool)
        except BaseException as error:
            seen.append(f"session sees {type(error).__name__}")
            raise
        finally:
            seen.append("session closes")

    return seen


def tasks_of_both_kinds(app: App, begun: Callable[[], None] = lambda: None) -> list[Any]:
    """A task of each kind that ends as its argument says."""

    @app.task(retry=AT_ONCE, max_attempts=1, timeout=60)
    async def on_loop(end: str, session: Session = injected) -> str:
        if end == "waits":
            begun()
            await asyncio.Event().wait()
        if end == "fails":
            raise ValueError(end)
        return session.pool.name

    @app.task(retry=AT_ONCE, max_attempts=1, timeout=60)
    def on_thread(ctx: SyncContext, end: str, session: Session = injected) -> str:
        if end == "waits":
            begun()
            ctx.wait_cancelled()
            raise Fail("stopped")
        if end == "fails":
            raise ValueError(end)
        return session.pool.name

    return [on_loop, on_thread]


@pytest.mark.parametrize("kind", [0, 1], ids=["async", "def"])
@live
async def test_a_run_gets_its_resources_and_they_are_closed_after_success_and_failure(shop: Shop, kind: int) -> None:
    seen = with_resources(shop.app)
    task = tasks_of_both_kinds(shop.app)[kind]
    async with shop.working():
        assert await (await task.aenqueue("succeeds")).aresult(SOON) == "pool"
        assert seen == ["pool opens", "session opens", "session closes"]
        record = await shop.until_ended(await task.aenqueue("fails"))
        assert record.state == "failed"
        # The pool is the one of the first run; the session could roll back.
        assert seen[3:] == ["session opens", "session sees ValueError", "session closes"]
    assert seen[-1] == "pool closes"


@pytest.mark.parametrize("kind", [0, 1], ids=["async", "def"])
@pytest.mark.parametrize(("stop", "state"), [("timeout", "failed"), ("cancel", "cancelled"), ("shutdown", "ready")])
@live
async def test_a_run_that_is_stopped_closes_its_resources(shop: Shop, kind: int, stop: str, state: str) -> None:
    seen = with_resources(shop.app)
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    task = tasks_of_both_kinds(shop.app, lambda: loop.call_soon_threadsafe(begun.set))[kind]
    worker = shop.worker()
    await worker.start()
    job = await task.aenqueue("waits")
    await begun.wait()
    if stop == "timeout":
        await shop.pass_time(61, worker)
        await shop.until_ended(job)
    elif stop == "cancel":
        await job.acancel()
        await shop.until_ended(job)
    await worker.stop(grace=0)
    assert (await job.astatus()).state == state
    assert seen[-2:] == ["session closes", "pool closes"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv(resource_tasks.LOG, str(path))
    return path


EVERYTHING = [
    "lifespan begins", "pool opens", "session opens", "client opens",
    "client closes", "session closes", "pool closes", "lifespan ends",
]  # fmt: skip


@pytest.mark.parametrize("name", ["apart", "apart_async"])
@pytest.mark.parametrize("end", ["succeeds", "fails"])
@live
async def test_a_child_process_opens_and_closes_resources_of_its_own(
    small_shop: Shop, log: Path, name: str, end: str
) -> None:
    task: Any = small_shop.borrow(resource_tasks.app).tasks[name]
    async with small_shop.working():
        job = await small_shop.app.aenqueue(task.job(end, ""))
        record = await small_shop.until_ended(job)
        assert record.state == ("succeeded" if end == "succeeds" else "failed")
        assert log.read_text().split("\n")[:-1] == EVERYTHING[:6]
    assert log.read_text().split("\n")[:-1] == EVERYTHING


@pytest.mark.parametrize("name", ["apart", "apart_async"])
@pytest.mark.parametrize(("stop", "state"), [("timeout", "failed"), ("cancel", "cancelled"), ("shutdown", "ready")])
@live
async def test_a_child_process_that_is_stopped_closes_its_resources(
    small_shop: Shop, log: Path, pipe: Path, name: str, stop: str, state: str
) -> None:
    task: Any = small_shop.borrow(resource_tasks.app).tasks[name]
    worker = small_shop.worker(cancel_grace=5.0 if stop == "cancel" else 0.0)
    await worker.start()
    job: Job[Any] = await small_shop.app.aenqueue(task.job("waits", str(pipe)))
    assert await read_pipe(pipe) == "begun"
    if stop == "timeout":
        await small_shop.pass_time(61, worker)
        await small_shop.until_ended(job)
    elif stop == "cancel":
        await job.acancel()
        while not any(run.stop.requested for run in worker.runner.runs) and worker.runner.runs:
            await asyncio.sleep(0)
        # A def that looks at nothing is ended after its grace.
        await small_shop.pass_time(6, worker)
        await small_shop.until_ended(job)
    await worker.stop(grace=0)
    assert (await job.astatus()).state == state
    assert log.read_text().split("\n")[:-1][:6] == EVERYTHING[:6]


@live
async def test_many_runs_at_once_share_a_worker_resource_that_is_opened_once(small_shop: Shop) -> None:
    seen = with_resources(small_shop.app)
    on_loop, on_thread = tasks_of_both_kinds(small_shop.app)
    async with small_shop.working(concurrency=20):
        jobs = [await task.aenqueue("succeeds") for task in (on_loop, on_thread) for _ in range(20)]
        assert {await job.aresult(SOON) for job in jobs} == {"pool"}
    assert seen.count("pool opens") == seen.count("pool closes") == 1
    assert seen.count("session opens") == seen.count("session closes") == 40


@live
async def test_a_resource_is_opened_and_closed_on_one_thread_and_never_blocks_the_loop(small_shop: Shop) -> None:
    app, threads = small_shop.app, list[int]()

    @app.resource
    def connection() -> Iterator[sqlite3.Connection]:
        threads.append(threading.get_ident())
        made = sqlite3.connect(":memory:", check_same_thread=False)
        yield made
        threads.append(threading.get_ident())
        made.close()

    @app.task
    async def asks(connection: sqlite3.Connection = injected) -> int:
        return int(connection.execute("select 7").fetchone()[0])

    @app.task
    def asks_too(connection: sqlite3.Connection = injected) -> int:
        threads.append(threading.get_ident())
        return int(connection.execute("select 7").fetchone()[0])

    async with small_shop.working():
        assert await (await asks.aenqueue()).aresult(SOON) == 7
        assert len(set(threads)) == 1
        assert threads[0] != threading.get_ident()
        threads.clear()
        assert await (await asks_too.aenqueue()).aresult(SOON) == 7
        assert len(set(threads)) == 1


@live
async def test_steps_get_resources_too_and_share_those_of_their_run(small_shop: Shop) -> None:
    app = small_shop.app
    seen = with_resources(app)

    async def first(n: int, session: Session = injected) -> int:
        return id(session) * n

    def second(session: Session, pool: Pool) -> list[int]:
        return [id(session), id(pool) - id(session.pool)]

    @app.task
    async def awaits(ctx: Context) -> list[int]:
        return [await ctx.step("first", first, 1), *await ctx.step("second", second)]

    @app.task
    def blocks(ctx: SyncContext, session: Session = injected) -> list[int]:
        return [id(session), *ctx.step("second", second)]

    async with small_shop.working():
        for job in (await awaits.aenqueue(), await blocks.aenqueue()):
            mine, same, nothing = await job.aresult(SOON)
            assert (mine, nothing) == (same, 0)
    assert seen.count("session opens") == seen.count("session closes") == 2


@live
async def test_a_resource_that_cannot_be_opened_is_named_and_its_job_retried(small_shop: Shop) -> None:
    app, tries = small_shop.app, list[int]()

    @app.resource(scope="worker")
    async def pool() -> AsyncIterator[Pool]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("nobody listens")
        yield Pool()

    @app.task(retry=AT_ONCE)
    async def asks(pool: Pool = injected) -> str:
        return pool.name

    async with small_shop.working():
        job = await asks.aenqueue()
        assert await job.aresult(SOON) == "pool"
        [first] = await app.jobs.aattempts(job.id)
        assert "resource 'pool' could not be opened: ConnectionError: nobody listens" in str(first.error)


@live
async def test_an_error_of_closing_is_logged_and_the_others_are_closed(
    small_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = small_shop.app
    seen = with_resources(app)

    @app.resource
    async def odd(session: Session) -> AsyncIterator[Odd]:
        yield Odd(session.pool)
        raise OSError("the disk is gone")

    @app.task
    async def asks(odd: Odd) -> str:
        return odd.name

    async with small_shop.working():
        assert await (await app.aenqueue(asks.read({}))).aresult(SOON) == "pool"
    assert seen[-2:] == ["session closes", "pool closes"]
    assert "resource 'odd' failed while it was closed" in caplog.text


@live
async def test_a_run_cancelled_while_it_opens_a_resource_closes_what_it_opened(small_shop: Shop) -> None:
    app = small_shop.app
    seen = with_resources(app)
    opening, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.resource
    def slow(session: Session) -> Iterator[Slow]:
        loop.call_soon_threadsafe(opening.set)
        go.wait()
        try:
            yield Slow(session.pool)
        finally:
            seen.append("slow closes")

    @app.task
    async def asks(slow: Slow) -> str:
        return slow.name

    async with small_shop.working() as worker:
        job = await app.aenqueue(asks.read({}))
        await opening.wait()
        await job.acancel()
        while not all(run.stop.requested for run in worker.runner.runs):
            await asyncio.sleep(0)
        go.set()
        assert (await small_shop.until_ended(job)).state == "cancelled"
    assert seen[-4:] == ["slow closes", "session sees CancelledError", "session closes", "pool closes"]


def test_inline_and_drained_jobs_get_resources_and_the_lifespan_surrounds_a_drain() -> None:
    seen: list[str] = []

    async def lifespan(app: App) -> AsyncIterator[None]:
        seen.append("begins")
        yield
        seen.append("ends")

    app = App(":memory:", lifespan=lifespan)
    resources = with_resources(app)
    for task in tasks_of_both_kinds(app):
        with inline(app):
            assert task.enqueue("succeeds").result() == "pool"
        with isolated(app):
            job = task.enqueue("succeeds")
            assert drain(app).succeeded == 1
            assert job.result(0) == "pool"
    assert seen == ["begins", "ends"] * 2
    assert resources == ["pool opens", "session opens", "session closes", "pool closes"] * 4


def test_a_test_replaces_a_resource_by_its_type_or_its_function() -> None:
    app = App(":memory:")
    seen = with_resources(app)
    on_loop, on_thread = tasks_of_both_kinds(app)
    with isolated(app), override_resource(app, Pool, Pool("fake")):
        jobs = [on_loop.enqueue("succeeds"), on_thread.enqueue("succeeds")]
        drain(app)
        assert [job.result(0) for job in jobs] == ["fake", "fake"]
    assert "pool opens" not in seen
    with inline(app), override_resource(app, Session, Session(Pool("mine"))):
        assert on_loop.enqueue("succeeds").result() == "mine"
    with pytest.raises(ConfigError, match="there is no resource int; give its type or its function"):
        override_resource(app, int, 7).__enter__()


@live
async def test_a_replaced_resource_is_refused_in_a_child_process(small_shop: Shop, log: Path) -> None:
    app = small_shop.borrow(resource_tasks.app)
    with override_resource(app, resource_tasks.client, object()):
        async with small_shop.working():
            job = await app.aenqueue(app.tasks["apart"].job("succeeds", ""))
            assert "is replaced here" in str((await small_shop.until_ended(job)).error)


def test_resources_are_no_part_of_the_payload() -> None:
    app = App(":memory:")
    with_resources(app)

    @app.task
    def plain(session: Session, n: int, *, pool: Pool) -> int:
        return n

    assert str(plain.signature) == "(n)"
    assert list(plain.signature.schema()["$defs"]["Payload"]["properties"]) == ["n"]
    with pytest.raises(InvalidArguments, match=r"unexpected keyword argument 'pool'"):
        plain.job(n=1, pool=Pool())  # type: ignore[call-arg]


def test_mistakes_with_resources_are_refused_where_they_are_made(caplog: pytest.LogCaptureFixture) -> None:
    app = App(":memory:")

    def refused(words: str, make: Callable[[], object]) -> None:
        with pytest.raises(ConfigError, match=words):
            make()

    def unnamed() -> Iterator[Any]:
        yield 1

    def text() -> Iterator[str]:
        yield "x"

    def pool() -> Pool:
        return Pool()

    def other() -> Pool:
        return Pool()

    def needy(session: Session) -> Iterator[Pool]:
        yield session.pool

    def of_run(pool: Pool) -> Iterator[Session]:
        yield Session(pool)

    def of_worker(session: Session) -> Iterator[sqlite3.Connection]:
        yield sqlite3.connect(":memory:")

    def with_context(ctx: Context) -> Iterator[Pool]:
        yield Pool()

    def early(pool: Pool, n: int) -> None: ...

    def marked(pool: Pool = injected) -> None: ...

    def spread(session: Session, *numbers: int) -> None: ...

    refused("use 'worker' or 'run'", lambda: app.resource(scope="job")(pool))  # type: ignore[call-overload]
    refused("does not say what it opens", lambda: app.resource(unnamed))
    refused("give it a type of its own, such as typing.NewType", lambda: app.resource(text))
    refused("takes a function, not Pool", lambda: app.resource(Pool))
    refused("leave @contextmanager out", lambda: app.resource(holdfast.tenant))
    refused("takes session, for which there is no resource", lambda: app.resource(needy))
    refused("call holdfast.current", lambda: app.resource(with_context))
    refused("there is no resource for pool; register one", lambda: app.task(marked))
    early_task = app.task(early)
    with pytest.raises(InvalidArguments, match="a Pool; if a worker should pass it, register it with @app.resource"):
        early_task.enqueue()  # type: ignore[call-arg]
    refused("comes too late; move the resource above the task", lambda: app.resource(pool))

    app = App(":memory:")
    app.resource(pool)
    refused("are both of type Pool", lambda: app.resource(other))
    app.resource(of_run)
    refused("lives as long as the worker and cannot need 'of_run'", lambda: app.resource(scope="worker")(of_worker))
    refused(r"put it behind \* or \*args", lambda: app.task(spread))
    refused("takes a function, not 7", lambda: App(":memory:", lifespan=7))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pass it yourself"):
        _ = injected.fetch
    with pytest.raises(ResourceFailed, match="'lifespan' could not be opened: OSError: no disk"):
        drain(App(":memory:", lifespan=_broken))


def _broken(app: App) -> Iterator[None]:
    raise OSError("no disk")
    yield
