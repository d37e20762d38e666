"""What a million jobs leave behind on Postgres: `python -m benchmarks wear`.

Each round fills the queue and drains it. Every job has a row in holdfast_live that is updated once and then deleted, so
it leaves two dead ones, and entries in indexes of what waits or runs. Vacuum removes both; the table shows whether it
keeps up, what the indexes of the hot path grow to, and whether the drain slows down.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import psycopg
from rich.console import Console
from rich.table import Table

from . import drains, report, stores
from .raw_postgres import PostgresBench

HEADINGS: Final = (
    "jobs so far", "drain /s", "table MB", "dead rows", "indexes MB", "hot indexes MB", "after vacuum MB",
    "autovacuums",
)  # fmt: skip
_HOT: Final = ("holdfast_live_ready", "holdfast_live_owned", "holdfast_live_queued")
_SIZES: Final = """
select pg_relation_size('holdfast_live'), pg_indexes_size('holdfast_live'),
       (select sum(pg_relation_size(name::regclass)) from unnest(%s::text[]) as name),
       n_dead_tup, autovacuum_count
  from pg_stat_user_tables where relname = 'holdfast_live'"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("wear", help="dead rows and index growth of one Postgres over a million jobs")
    parser.set_defaults(command=_run)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--postgres", metavar="DSN", help="a server to use instead of one of its own")


def _run(options: argparse.Namespace, console: Console) -> int:
    with stores.server(options.postgres) as dsn:
        rounds = measured(PostgresBench(dsn), options.jobs // options.rounds, options.rounds)
    content = {
        "kind": "wear",
        "at": time.strftime("%Y-%m-%d %H:%M"),
        "machine": report.machine(),
        "rounds": rounds,
    }
    table = Table(*HEADINGS)
    for line in lines(content):
        table.add_row(*line)
    console.print(table)
    console.print(f"written to {report.save(content, '-wear')}")
    return 0


def measured(bench: PostgresBench, jobs: int, rounds: int) -> list[dict[str, float]]:
    found: list[dict[str, float]] = []
    with bench.fresh() as url, closing(psycopg.connect(url, autocommit=True)) as connection:
        for number in range(1, rounds + 1):
            rate = jobs / drains.refill_and_drain(bench, url, jobs)
            found.append({"jobs": number * jobs, "rate": rate, **_sizes(connection)})
        connection.execute("vacuum holdfast_live")
        found[-1]["vacuumed"] = _sizes(connection)["hot"]
    return found


def lines(content: Mapping[str, Any]) -> list[list[str]]:
    """The cells of each round, as text."""
    return [
        [
            f"{round_['jobs']:,}", report.amount(round_["rate"]), _megabytes(round_["table"]), f"{round_['dead']:,}",
            _megabytes(round_["indexes"]), _megabytes(round_["hot"]),
            _megabytes(round_["vacuumed"]) if "vacuumed" in round_ else "", str(round_["vacuums"]),
        ]
        for round_ in content["rounds"]
    ]  # fmt: skip


def _sizes(connection: psycopg.Connection[Any]) -> dict[str, float]:
    connection.execute("select pg_stat_clear_snapshot()")
    row = connection.execute(_SIZES, (list(_HOT),)).fetchone()
    assert row is not None
    names = ("table", "indexes", "hot", "dead", "vacuums")
    return dict(zip(names, map(int, row), strict=True))


def _megabytes(size: float) -> str:
    return f"{size / 1_000_000:.1f}"
