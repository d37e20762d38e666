"""A store as it is after a busy week: a hundred thousand live jobs, a million finished ones.

The finished ones are copies of jobs that really ran, multiplied inside the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import holdfast
from holdfast.clock import SECOND, SYSTEM_CLOCK
from holdfast.ids import first_id_of
from holdfast.storage.ops.jobs import counting
from holdfast.storage.port import Op
from tools.fill_jobs import inserts

from .shop import fill, shop_app

LIVE: Final = 100_000
FINISHED: Final = 1_000_000
QUEUES: Final = 20
WEEK: Final = 7 * 24 * 3600 * SECOND

Execute = Callable[[str], object]
Load = Callable[[Iterable[tuple[int, str, int]]], object]
"""Puts rows into the table holdfast_seed: a number, an id, an instant."""


def big_app(store: str) -> holdfast.App:
    app = shop_app(store)
    fill(app)
    return app


def multiply(app: holdfast.App, execute: Execute, load: Load) -> None:
    """Fill its store. `execute` and `load` speak to the same database."""
    execute("create table holdfast_seed (n bigint primary key, id text not null, at bigint not null)")
    start, step = SYSTEM_CLOCK.now() - WEEK, WEEK // FINISHED
    load((n, first_id_of(start + n * step), start + n * step) for n in range(FINISHED))
    for outcome, which in (("succeeded", "n % 20 < 18"), ("failed", "n % 20 = 18"), ("cancelled", "n % 20 = 19")):
        _copy(execute, outcome, which)
    execute(
        """insert into holdfast_attempt
                  (job_id, epoch, generation, attempt, outcome, worker, started_at, ended_at, error)
           select id, 1, 0, 1, 'exhausted', 'gone', started_at, finished_at, error
             from holdfast_any_job where state = 'failed' and queue like 'shard-%'"""
    )
    execute("drop table holdfast_seed")
    _enqueue(app)
    # The last hours are rolled into the figures that charts are made of.
    execute(f"update holdfast_mark set at = at - {5 * 3600 * SECOND} where name = 'rolled'")
    app.stats.roll()
    _tally(app)


def _tally(app: holdfast.App) -> None:
    """Finished jobs are counted now and then, as workers do."""
    store = app.open()
    tallies = store.read(Op(lambda tx: counting.measure(tx, recount=True)))
    store.write(Op(lambda tx: counting.write_tallies(tx, tallies)))


def _copy(execute: Execute, outcome: str, which: str) -> None:
    """Spread over the week, over queues and tenants."""
    new = {
        "id": "seed.id",
        "queue": f"'shard-' || (n / 20 % {QUEUES})",
        "task": "job.task || '.' || (n % 7)",
        "tenant": "case when n % 3 = 0 then '' else 'tenant-' || (n % 50) end",
        "tags": "case when n % 10 = 0 then '[\"big\"]' end",
        "rank": "at",
        "not_before": "at",
        "created_at": "at",
        "claimed_at": "case when job.claimed_at is not null then at + 40000 end",
        "started_at": "case when job.claimed_at is not null then at + 40000 end",
        "finished_at": "at + 90000 + n % 1000 * 1000",
        "finished_epoch": "job.finished_epoch",
    }
    template = (
        f"select min(id) from holdfast_any_job where state = '{outcome}' and flow is null and queue not like 'shard-%'"
    )
    copied = ("route", "reason", "state", "payload", "max_attempts", "attempts", "epoch", "error", "result")
    columns = {name: f"job.{name}" for name in copied} | new
    source = f"holdfast_seed as seed, holdfast_any_job as job where job.id = ({template}) and {which} order by n"
    for text in inserts(columns, source, ended=True):
        execute(text)


def _enqueue(app: holdfast.App) -> None:
    """The live ones: most are due, some are later, some are held back by a limit."""
    send = app.tasks["mail.send"]
    for start in range(0, LIVE, 5_000):
        app.enqueue_many(
            [
                send.options(
                    queue=f"shard-{n % QUEUES}",
                    delay=3600 if n % 5 == 0 else None,
                    tags=["big"] if n % 10 == 0 else [],
                    concurrency_key=f"key-{n % 100}" if n % 5 == 1 else None,
                    concurrency=2 if n % 5 == 1 else None,
                ).job(f"user{n}@example.com")
                for n in range(start, start + 5_000)
            ]
        )
