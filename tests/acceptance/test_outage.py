"""Postgres goes away and comes back; the worker waits, and goes on by itself."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import holdfast
from tests.acceptance.conftest import producer_for, url_of
from tests.acceptance.fleet import fleet, ids_of, until
from tests.patience import SOON
from tests.postgres_server import private_server


@pytest.mark.timeout(400)
def test_a_worker_outlives_a_crash_and_an_outage_of_postgres(tmp_path: Path) -> None:
    with private_server(fsync="on") as server, fleet(url_of(server.dsn), tmp_path) as workers:
        app = producer_for(url_of(server.dsn))
        app.migrate()
        task = app.tasks["entry"]
        workers.start()
        task.enqueue(0).wait(60)
        running = task.enqueue(3)
        until(lambda: running.id in ids_of(workers.lines(), "S"), 60, "it runs", workers.log)
        server.stop(signal.SIGQUIT)
        began = time.monotonic()
        with pytest.raises(holdfast.StorageUnavailable):
            task.enqueue(0)
        assert time.monotonic() - began < SOON, "it is told, and does not wait for the server"
        # Longer than the lease of 2 s: the worker fences itself, and nobody is convicted of that.
        until(lambda: "handed back" in workers.log.read_text(), 60, "the worker fences itself", workers.log)
        server.start()
        after = task.enqueue(0)
        assert after.wait(60) == "succeeded"
        assert running.wait(60) == "succeeded"
        assert running.status().crashes == 0
        assert workers.stop_all() == [0]
        app.close()


@pytest.mark.timeout(400)
def test_a_worker_outlives_a_postgres_that_stands_still(tmp_path: Path) -> None:
    with private_server() as server, fleet(url_of(server.dsn), tmp_path) as workers:
        workers.environment["HOLDFAST_STORE_TIMEOUT"] = "1"
        app = producer_for(url_of(server.dsn))
        app.migrate()
        task = app.tasks["entry"]
        workers.start()
        task.enqueue(0).wait(60)
        running = task.enqueue(3)
        until(lambda: running.id in ids_of(workers.lines(), "S"), 60, "it runs", workers.log)
        with server.frozen():
            began = time.monotonic()
            until(lambda: "handed back" in workers.log.read_text(), 60, "the worker fences itself", workers.log)
            assert time.monotonic() - began < SOON, "by its own clock, and not when the server answers"
        assert task.enqueue(0).wait(60) == "succeeded"
        assert running.wait(60) == "succeeded"
        assert running.status().crashes == 0
        assert workers.stop_all() == [0]
        app.close()


@pytest.mark.timeout(400)
def test_a_worker_can_be_stopped_while_postgres_stands_still(tmp_path: Path) -> None:
    with private_server() as server, fleet(url_of(server.dsn), tmp_path) as workers:
        workers.environment |= {"HOLDFAST_STORE_TIMEOUT": "1", "HOLDFAST_GRACE": "1"}
        app = producer_for(url_of(server.dsn))
        app.migrate()
        workers.start()
        app.tasks["entry"].enqueue(0).wait(60)
        with server.frozen():
            # Whatever its code: it could not say goodbye to the store.
            assert len(workers.stop_all(SOON)) == 1
        app.close()


@pytest.mark.proof
@pytest.mark.timeout(400)
@pytest.mark.parametrize("trouble", ["frozen", "locked"])
def test_for_a_minute_no_caller_waits_past_the_default_limit_and_nothing_is_lost_or_doubled(trouble: str) -> None:
    with private_server() as server:
        app = holdfast.App(url_of(server.dsn))
        app.migrate()
        task = app.task(name="note")(_note)
        known, maybe, longest = _enqueue_for(
            65.0, task, server.frozen() if trouble == "frozen" else _locked(server.dsn)
        )
        assert longest < 12.0
        after = task.enqueue("after")
        with psycopg.connect(server.dsn) as connection:
            stored = [job_id for (job_id,) in connection.execute("select id from holdfast_job")]
        assert len(stored) == len(set(stored))
        assert known | {after.id} <= set(stored) <= known | maybe | {after.id}
        app.close()


def _note(text: str) -> None: ...


@contextmanager
def _locked(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as other:
        other.execute("lock table holdfast_job in access exclusive mode")
        yield


def _enqueue_for(
    seconds: float, task: holdfast.Task[..., None], trouble: AbstractContextManager[None]
) -> tuple[set[str], set[str], float]:
    """Enqueue all the time, by threads and tasks; the ids acknowledged, those in doubt, and the longest call."""
    known: set[str] = set()
    maybe: set[str] = set()
    took = [0.0]
    ends = time.monotonic() + seconds

    def told(job_id: str, began: float, error: Exception | None) -> None:
        took.append(time.monotonic() - began)
        if error is None:
            known.add(job_id)
        elif isinstance(error, holdfast.OutcomeUnknown):
            maybe.add(job_id)

    def on_a_thread() -> None:
        while time.monotonic() < ends:
            job_id, began = uuid4().hex, time.monotonic()
            failed: Exception | None = None
            try:
                task.options(id=job_id).enqueue("a")
            except holdfast.errors.StorageError as error:
                failed = error
            told(job_id, began, failed)

    async def on_a_loop() -> None:
        while time.monotonic() < ends:
            job_id, began = uuid4().hex, time.monotonic()
            failed: Exception | None = None
            try:
                await task.options(id=job_id).aenqueue("a")
            except holdfast.errors.StorageError as error:
                failed = error
            told(job_id, began, failed)

    async def many() -> None:
        await asyncio.gather(*(on_a_loop() for _ in range(20)))

    with ThreadPoolExecutor(21) as threads:
        callers = [threads.submit(asyncio.run, many()), *(threads.submit(on_a_thread) for _ in range(20))]
        until(lambda: len(known) > 100, SOON, "jobs are stored before the trouble")
        with trouble:
            time.sleep(seconds - 5.0)
        for caller in callers:
            caller.result(SOON)
    return known, maybe, max(took)
