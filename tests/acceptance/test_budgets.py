"""Processes that reserve and settle in nested budgets, and are killed: nothing is overspent or stays reserved.

Triggers in the database itself look at every commit; a reader beside them looks as users do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

import holdfast
from holdfast.model.budgets import Budget
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import Statement
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough

SLOTS = 8
OPTIONS = ("--queues", "budgets", "--concurrency", str(SLOTS))
PAIRS = 20
ASKED = 7
USED = 3


@pytest.mark.timeout(400)
def test_a_few_processes_never_overspend_whoever_is_killed(app: holdfast.App, workers: Fleet) -> None:
    _spend(app, workers, processes=2, pairs=120, kills=1)


@pytest.mark.proof
@pytest.mark.timeout(3000)
def test_eight_processes_and_twenty_thousand_pairs_never_overspend(app: holdfast.App, workers: Fleet) -> None:
    _spend(app, workers, processes=8, pairs=20_000, kills=24)


def _spend(app: holdfast.App, workers: Fleet, *, processes: int, pairs: int, kills: int) -> None:
    dice = random.Random(5)
    app.migrate()
    # Half of what the runs at once would like to reserve: it is always near its end, and jobs are blocked all the time.
    ahead = processes * SLOTS * ASKED // 2
    app.budgets.set("acme", {"tokens": ahead + ASKED})
    app.budgets.set("team", {"tokens": ahead, "usd": Decimal(ahead) / 100}, within="acme")
    _watch_every_commit(app)
    admitted = pairs // 10
    jobs = [app.tasks["spend_in_pairs"].job(PAIRS) for _ in range((pairs - admitted) // PAIRS)]
    jobs += [
        app.tasks["spend_as_admitted"].options(reserve={"team": {"tokens": 7}}).job()
        for _ in range(pairs - len(jobs) * PAIRS)
    ]
    dice.shuffle(jobs)
    app.enqueue_many(jobs)
    for _ in range(processes):
        workers.start(*OPTIONS)
    with _reader(app) as looks:
        for n in range(kills):
            _keep_going(app, ahead, pairs * USED * (n + 1) // (kills + 1), workers)
            workers.kill(dice.randrange(processes), *OPTIONS)
        _keep_going(app, ahead, pairs * USED, workers)
        until(lambda: _unfinished(app) == 0, 120, "every job has ended", workers.log)
    workers.stop_all()
    assert len(looks) > 20 and max(looks) <= 0, "spent and reserved were never more than the limit"
    assert _ask(app, "select budget, over from test_overspent") == []
    for name in ("team", "acme"):
        line = app.budgets.get(name)["tokens"]
        assert (line.spent, line.lifetime, line.reserved) == (pairs * USED, pairs * USED, 0), "each pair counts once"
    assert app.budgets.get("team")["usd"].spent == Decimal(pairs * USED) / 100
    assert app.budgets.get("team")["tokens"].hard_breaches > 0, "it was exhausted now and then"
    assert _ask(app, "select * from holdfast_reservation") == [], "nothing was left behind"


def _keep_going(app: holdfast.App, ahead: int, spent: int, workers: Fleet) -> None:
    """Raise the limits a little at a time until so much is spent."""

    def is_there() -> bool:
        line = app.budgets.get("team")["tokens"]
        limit = int(line.spent) + ahead
        if line.limit is not None and limit > line.limit + ahead // 4:
            app.budgets.raise_("acme", {"tokens": limit + ASKED})
            app.budgets.raise_("team", {"tokens": limit, "usd": Decimal(limit) / 100})
        return line.spent >= spent

    until(is_there, 60 + spent / 20, f"{spent} are spent", workers.log)


@contextmanager
def _reader(app: holdfast.App) -> Iterator[list[Decimal]]:
    """How much more than the limit was spent and reserved, at each look; in a thread of its own."""
    looks: list[Decimal] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for name in ("team", "acme"):
                looks.extend(_excess(app.budgets.get(name)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()


def _excess(budget: Budget) -> list[Decimal]:
    return [line.spent + line.reserved - line.limit for line in budget.dimensions if line.limit is not None]


def _unfinished(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.state not in ("succeeded", "failed"))


_OVER = """
select line.budget, line.spent - line.hard + coalesce((
           select sum(r.amount) from holdfast_reservation as r join holdfast_live as job on job.id = r.job_id
            where r.budget = line.budget and r.dimension = line.dimension
              and job.state = 'running' and job.epoch = r.epoch), 0) as over
  from holdfast_budget_line as line
"""


def _watch_every_commit(app: holdfast.App) -> None:
    """Note whatever is over its limit: on Postgres at the commit, while the budget is still locked."""
    _do(app, "create table test_overspent (budget text, over bigint)")
    note = f"insert into test_overspent select budget, over from ({_OVER}) as o where over > 0"
    tables = ("holdfast_reservation", "holdfast_budget_line")
    if app.open().backend == "postgres":
        body = f"begin {note}; return null; end"
        _do(app, f"create function test_watch() returns trigger language plpgsql as $$ {body} $$")
        for table in tables:
            _do(
                app,
                f"create constraint trigger test_{table} after insert or update on {table} "
                "deferrable initially deferred for each row execute function test_watch()",
            )
    else:
        for table in tables:
            for event in ("insert", "update"):
                _do(app, f"create trigger test_{table}_{event} after {event} on {table} begin {note}; end")


def _do(app: holdfast.App, text: str) -> None:
    async def run(tx: Tx) -> None:
        await tx.one(Statement("test", text, text))

    app.open().write(Op(run))


def _ask(app: holdfast.App, text: str) -> list[Any]:
    async def run(tx: Tx) -> list[Any]:
        return await tx.all(Statement("test", text, text))

    return app.open().read(Op(run))
