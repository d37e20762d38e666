"""A program that forks with its app open: `fork`, many children one after the other; `pool`, a multiprocessing pool.

    HOLDFAST_STORE=… TEST_LEDGER=… python -m tests.chaos.environment_faults.forking fork|pool COUNT

It ends with 0 if every child did what it should. Each child uses the app, which its parent goes on using.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from holdfast.storage.port import Op
from holdfast.storage.statements import Statement
from tests.chaos import ledger
from tests.chaos.environment_faults.tasks import app, entry

NOTED = os.environ.get("TEST_LEDGER", "")
BACKENDS = Statement("backends", "select -1", "select pid from pg_stat_activity where application_name = 'holdfast'")
MY_BACKEND = Statement("backend", "select 0", "select pg_backend_pid()")


def enqueue(_: int = 0) -> str:
    job = entry.enqueue(0)
    ledger.append(NOTED, "Q", job.id)
    return job.id


async def aenqueue() -> None:
    job = await entry.aenqueue(0)
    ledger.append(NOTED, "Q", job.id)


def fork(count: int) -> None:
    """Threads of the parent write and listen all the time, so that locks are held and sockets busy at a fork."""
    stop = threading.Event()
    busy = [threading.Thread(target=keep_busy, args=(stop,)) for _ in range(2)]
    for thread in busy:
        thread.start()
    for n in range(count):
        mine = set(ask(BACKENDS))
        assert in_child(lambda mine=mine, n=n: live_as_a_child(mine, leave_early=n % 3 == 0)) == 0
        enqueue()
    stop.set()
    for thread in busy:
        thread.join(60)
    asyncio.run(aenqueue())


def keep_busy(stop: threading.Event) -> None:
    while not stop.wait(0.005):
        job = entry.enqueue(0)
        ledger.append(NOTED, "Q", job.id)
        app.jobs.get(job.id)


def live_as_a_child(parents: set[int], *, leave_early: bool) -> None:
    job = enqueue()
    asyncio.run(aenqueue())
    assert app.jobs.get(job).id == job
    assert ask(MY_BACKEND)[0] not in parents, "a child uses a connection of its parent"
    if not leave_early:
        app.close()


def ask(statement: Statement) -> list[int]:
    return [number for (number,) in app.open().read(Op(lambda tx: tx.all(statement)))]


def pool(count: int) -> None:
    """What a web server does that forks its workers after it has made its app."""
    enqueue()
    with multiprocessing.get_context("fork").Pool(4) as children:
        done = children.map(enqueue, range(count), chunksize=1)
        enqueue()
    assert len(set(done)) == count


def in_child(call: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    {"fork": fork, "pool": pool}[sys.argv[1]](int(sys.argv[2]))
    app.close()
