"""`python -m benchmarks [run | peers | compare | publish | where | scale | wear]`; `run` by default; see --help."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from . import charts, compare, publish, report, rivals, scale, stores, wear, where
from .contest import match, table
from .contest.venue import Venue
from .measure import Sizes
from .probes import Probe, probes
from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .session import Session, needed
from .stores import Bench


def main() -> int:
    options = _options()
    # So that servers and workers end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(width=None if sys.stdout.isatty() else 180)
    result: int = options.command(options, console)
    return result


def _run(options: argparse.Namespace, console: Console) -> int:
    """Everything that the table of goals has."""
    sizes = Sizes.quick() if options.quick else Sizes()
    sizes = replace(sizes, runs=options.runs) if options.runs is not None else sizes
    machine = report.machine()
    console.print("  ".join(f"{name} {value}" for name, value in machine.items()))
    session = Session()
    with console.status("") as status, Venue(options.postgres) as venue:

        def measure(name: str, found: list[Probe]) -> None:
            chosen = needed(found, options.only, options.without)
            session.measure(chosen, sizes.runs, lambda words: status.update(f"{name}, {words}"))

        for bench in _benches(options):
            session.settings[bench.name] = bench.settings()
            measure(bench.name, probes(bench, sizes))
        found, session.absent = rivals.probes(venue, sizes, options.store, session.absent)
        measure("beside others", found)
    content = session.content(machine, {**_plain(options), "runs": sizes.runs})
    report.show(content, console)
    _keep(content, console, "")
    return 0


def _peers(options: argparse.Namespace, console: Console) -> int:
    """Other queues in the same run."""
    lengths = match.Lengths.quick() if options.quick else match.Lengths()
    lengths = replace(lengths, runs=options.runs) if options.runs is not None else lengths
    machine = report.machine()
    with console.status("") as status, Venue(options.postgres) as venue:
        played = match.Match(lengths, lambda words: status.update(words))
        try:
            played.play(venue, options.only, kills=not options.no_kills)
        except KeyboardInterrupt:
            console.print("interrupted; this is what was found so far")
        content = played.content(machine, venue.settings(), {**_plain(options), "runs": lengths.runs})
    table.show(content, console)
    _keep(content, console, "-peers")
    return 0


def _keep(content: dict[str, Any], console: Console, name: str) -> None:
    path = report.save(content, name)
    console.print(f"written to {path}" + "".join(f", {plot.name}" for plot in charts.write(content, path)))


def _benches(options: argparse.Namespace) -> Iterator[Bench]:
    if options.store in ("both", "sqlite"):
        with stores.folder() as folder:
            yield SqliteBench(folder)
    if options.store in ("both", "postgres"):
        with stores.server(options.postgres) as dsn:
            yield PostgresBench(dsn)


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "command"}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(title="commands")
    run = commands.add_parser("run", help="Holdfast beside bare loops on its own schema: the table of goals")
    run.set_defaults(command=_run)
    run.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    run.add_argument("--without", default="", metavar="NAME", help="leave out figures with this in their name: growth")
    peers = commands.add_parser("peers", help="Holdfast beside other queues, with a kill test of each")
    peers.set_defaults(command=_peers)
    peers.add_argument("--no-kills", action="store_true", help="leave out the kill tests; --runs 0 does nothing else")
    for command in (run, peers):
        command.add_argument("--quick", action="store_true", help="one short run of each, to see that it works")
        command.add_argument("--only", default="", metavar="NAME", help="rows or peers whose name has this in it")
        command.add_argument("--runs", type=int, help="runs of each, 3 by default")
        command.add_argument("--postgres", metavar="DSN", help="a server to use instead of one of its own")
    compared = commands.add_parser("compare", help="whether NEW is worse than OLD, beyond the noise of both")
    compared.set_defaults(command=lambda o, console: compare.run(o.old, o.new, console, rates=o.rates))
    compared.add_argument("old", type=Path)
    compared.add_argument("new", type=Path)
    compared.add_argument("--rates", action="store_true", help="compare absolute rates too: same machine, equally idle")
    publish.add_command(commands)
    where.add_command(commands)
    scale.add_command(commands)
    wear.add_command(commands)
    given = sys.argv[1:]
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given = ["run", *given]
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
