"""Run every benchmark: `python -m benchmarks [--quick] [--store sqlite|postgres] [--postgres DSN] [--only WORD]`."""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tests.postgres_server import private_server

from . import holdfast_runs as runs
from . import report
from .holdfast_runs import Bench
from .measure import Figure, Latency, Sizes
from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .report import Line, Section, Wait

RESULTS = Path(__file__).with_name("results")


def main() -> None:
    options = _options()
    sizes = Sizes.quick() if options.quick else Sizes()
    if options.runs:
        sizes = Sizes(**{name: getattr(sizes, name) for name in Sizes.__slots__} | {"runs": options.runs})
    console = Console()
    console.print("  ".join(f"{name} {value}" for name, value in report.machine().items()))
    sections = [_measure(bench, sizes, options.only, console) for bench in _benches(options)]
    report.show(sections, console)
    console.print(f"written to {report.save(sections, RESULTS, vars(options))}")


def _measure(bench: Bench, sizes: Sizes, only: str, console: Console) -> Section:
    """Bare loops and Holdfast in turn, so that a slow minute of the machine falls on both."""
    section = Section(bench.name, bench.settings())
    works = [work for work in _rates(bench, sizes, section) + _waits(bench, sizes, section) if only in work[0]]
    with console.status("") as status:
        for run in range(sizes.runs):
            for name, work in works:
                status.update(f"{bench.name}, run {run + 1} of {sizes.runs}: {name}")
                gc.collect()
                work()
    section.lines = [line for line in section.lines if line.ours.values]
    section.waits = [wait for wait in section.waits if wait.p50.values]
    return section


Work = tuple[str, Callable[[], None]]


def _rates(bench: Bench, sizes: Sizes, section: Section) -> list[Work]:
    one, bulk, drained, unlimited = Figure(), Figure(), Figure(), Figure()
    postgres = bench.name == "Postgres"

    def line(work: str, raw: Figure, must: float | None, ours: Callable[[], float], note: str = "") -> Work:
        section.lines.append(new := Line(work, raw, must=must, note=note))
        return work, lambda: new.ours.values.append(ours())

    def drain(count: int, kind: str, processes: int = 1) -> float:
        return runs.drain(bench, count, kind=kind, processes=processes)

    n = sizes.drained
    return [
        ("enqueue: bare", lambda: one.values.append(bench.enqueue_one(sizes.singles))),
        line("enqueue one by one", one, 0.8 if postgres else 0.65, lambda: runs.enqueue_one(bench, sizes.singles)),
        line(
            "enqueue by 16 threads", one, None if postgres else 2, lambda: runs.enqueue_threads(bench, sizes.threaded)
        ),
        line("enqueue by 200 async tasks", one, 8, lambda: runs.enqueue_tasks(bench, sizes.awaited)),
        ("bulk: bare", lambda: bulk.values.append(bench.enqueue_bulk(sizes.bulks))),
        line("bulk of 1,000", bulk, None if postgres else 0.3, lambda: runs.enqueue_bulk(bench, sizes.bulks)),
        ("drain: bare", lambda: drained.values.append(bench.drain(n))),
        line("drain, async no-op, 1 process", drained, 0.5, lambda: drain(n, "async")),
        line("drain, def no-op, 1 process", drained, None, lambda: drain(n, "def"), "threads; the bare loop is async"),
        line(
            "drain, async no-op, 2 processes", drained, None, lambda: drain(n, "async", 2), "the bare loop is 1 process"
        ),
        ("limits: none", lambda: unlimited.values.append(drain(n, "async"))),
        line("limits: drain with 1,000 keys", unlimited, 0.6, lambda: drain(n, "keyed"), "beside an unlimited drain"),
        line("limits: drain, fair over 100", unlimited, 0.4, lambda: drain(n, "fair"), "beside an unlimited drain"),
    ]


def _waits(bench: Bench, sizes: Sizes, section: Section) -> list[Work]:
    postgres = bench.name == "Postgres"

    def wait(work: str, must: tuple[float, float], ours: Callable[[], Latency]) -> Work:
        section.waits.append(new := Wait(work, must=must))
        return work, lambda: _note(new, ours())

    return [
        wait("latency in process", (3, 8) if postgres else (1, 3), lambda: runs.latency_within(bench, sizes.samples)),
        wait("latency across processes", (3, 8), lambda: runs.latency_across(bench, sizes.samples)),
    ]


def _note(wait: Wait, found: Latency) -> None:
    wait.p50.values.append(found.p50)
    wait.p99.values.append(found.p99)


def _benches(options: argparse.Namespace) -> Iterator[Bench]:
    if options.store in ("both", "sqlite"):
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            yield SqliteBench(Path(folder))
    if options.store in ("both", "postgres"):
        with _server(options.postgres) as dsn:
            yield PostgresBench(dsn)


@contextmanager
def _server(dsn: str | None) -> Iterator[str]:
    if dsn:
        yield dsn
        return
    # As durable as a server should be; the tests' own turns fsync off.
    with private_server(fsync="on", synchronous_commit="on", shared_buffers="128MB") as server:
        yield server.dsn


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Holdfast beside the raw limit.")
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    parser.add_argument("--postgres", metavar="DSN", help="a server to use instead of one of its own")
    parser.add_argument("--only", default="", metavar="WORD", help="works whose name has this word")
    parser.add_argument("--runs", type=int, help="runs of each, 3 by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
