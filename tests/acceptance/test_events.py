"""Readers of the event log, beside writers whose transactions commit in another order than they wrote."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

import holdfast
from tests.acceptance.conftest import url_of

WRITERS = 8
READERS = 4
SEED = 20_260

Read = Callable[[str], tuple[list[str], str]]
"""From a cursor to the jobs behind it, and the next cursor."""


class Writers:
    """Each has a connection of its own. In a round all write, one after the other, and commit in a drawn order."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self.app = stack.enter_context(opened(dsn))
        self.task = self.app.declare("work")
        self._connections = [stack.enter_context(psycopg.connect(dsn)) for _ in range(WRITERS)]
        self._random = random.Random(SEED)
        self.ids: set[str] = set()

    def round(self, after_each: Callable[[], object]) -> None:
        for connection in self._connections:
            job = self.task.options(connection=connection).enqueue()
            self.ids.add(job.id)
        for connection in self._random.sample(self._connections, WRITERS):
            connection.commit()
            after_each()


@contextmanager
def opened(dsn: str) -> Iterator[holdfast.App]:
    app = holdfast.App(url_of(dsn))
    yield app
    app.close()


def by_the_log(app: holdfast.App) -> Read:
    def read(cursor: str) -> tuple[list[str], str]:
        found = app.events.read(cursor, kinds="job.enqueued", limit=3)
        return [event.job for event in found if event.job], found[-1].cursor if found else cursor

    return read


def by_a_bare_sequence(connection: psycopg.Connection[Any]) -> Read:
    """What a reader does that takes the numbers of written rows for the order of their commits."""

    def read(cursor: str) -> tuple[list[str], str]:
        after = 0 if cursor == "start" else int(cursor)
        rows = connection.execute(
            "select seq, job from holdfast_event_inbox where seq > %s and kind = 'job' order by seq limit 3", [after]
        ).fetchall()
        connection.commit()
        return [job for _, job in rows], str(rows[-1][0]) if rows else cursor

    return read


def watch(readers: list[Read], writers: Writers, rounds: int) -> list[list[str]]:
    """What each reader has seen when all is written; each is started anew, from its cursor, for every look."""
    seen: list[list[str]] = [[] for _ in readers]
    cursors = ["start"] * len(readers)

    def look(index: int) -> bool:
        jobs, cursors[index] = readers[index](cursors[index])
        seen[index] += jobs
        return bool(jobs)

    # Readers look at different moments: one after each commit, in turn.
    turns: Iterator[int] = iter(n % len(readers) for n in range(1_000_000))
    for _ in range(rounds):
        writers.round(lambda: look(next(turns)))
    for index in range(len(readers)):
        while look(index):
            pass
    return seen


def test_readers_with_restarts_miss_no_event_and_see_none_twice(postgres_dsn: str) -> None:
    with ExitStack() as stack:
        writers = Writers(postgres_dsn, stack)
        writers.app.migrate()
        writers.app.queues.set("default", events="all")
        readers = [by_the_log(stack.enter_context(opened(postgres_dsn))) for _ in range(READERS)]

        seen = watch(readers, writers, rounds=25)

        for jobs in seen:
            assert len(jobs) == len(set(jobs)), "an event came twice"
            assert set(jobs) == writers.ids, "an event was missed"
        assert all(jobs == seen[0] for jobs in seen), "the log has one order for all"


def test_a_bare_sequence_would_have_missed_events(postgres_dsn: str) -> None:
    """The test above can fail: the same readers with the numbers of writing as cursors lose what commits late."""
    with ExitStack() as stack:
        writers = Writers(postgres_dsn, stack)
        writers.app.migrate()
        writers.app.queues.set("default", events="all")
        readers = [by_a_bare_sequence(stack.enter_context(psycopg.connect(postgres_dsn))) for _ in range(READERS)]

        seen = watch(readers, writers, rounds=25)

        assert any(set(jobs) != writers.ids for jobs in seen)


def test_readers_at_full_speed_miss_nothing(store_url: str) -> None:
    """Writers and readers each on a thread, nobody waits for anybody."""
    jobs_each = 60
    app = holdfast.App(store_url)
    app.migrate()
    app.queues.set("default", events="all")
    task = app.declare("work")
    written: list[str] = []
    lock = threading.Lock()

    def write() -> None:
        for _ in range(jobs_each):
            job = task.enqueue()
            with lock:
                written.append(job.id)

    seen: list[list[str]] = [[] for _ in range(READERS)]

    def follow(index: int) -> None:
        cursor = "start"
        while len(seen[index]) < WRITERS * jobs_each:
            # Seven events and a new reader.
            for count, event in enumerate(app.events(cursor, kinds="job.enqueued", timeout=30), 1):
                seen[index].append(event.job or "")
                cursor = event.cursor
                if count == 7 or len(seen[index]) == WRITERS * jobs_each:
                    break
            else:
                return

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    threads += [threading.Thread(target=follow, args=(index,)) for index in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    app.close()

    for jobs in seen:
        assert sorted(jobs) == sorted(written)


@pytest.mark.parametrize("colour", ["blocking", "awaiting"])
def test_a_waiting_reader_is_woken_by_what_another_commits(store_url: str, colour: str) -> None:
    app = holdfast.App(store_url)
    app.migrate()
    app.queues.set("default", events="all")
    task = app.declare("work")
    cursor = app.events.cursor()

    async def first() -> str | None:
        async for event in app.aevents(cursor, timeout=30):
            return event.job
        return None

    def first_of_thread() -> str | None:
        return next((event.job for event in app.events(cursor, timeout=30)), None)

    async def both() -> None:
        waiting = asyncio.create_task(first() if colour == "awaiting" else asyncio.to_thread(first_of_thread))
        await asyncio.sleep(0)
        job = await task.aenqueue()
        assert await waiting == job.id

    asyncio.run(both())
    app.close()
