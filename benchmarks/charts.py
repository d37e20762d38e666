"""The plots of a result file, beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from . import plots

_DRAINS: Final = {
    "sqlite.bare.drain": "SQLite: the bare loop",
    "sqlite.drain": "SQLite: Holdfast",
    "sqlite.drain.two": "SQLite: two processes",
    "sqlite.drain.def": "SQLite: def tasks",
    "sqlite.drain.keyed": "SQLite: 1,000 keys",
    "sqlite.drain.fair": "SQLite: fair, 100 tenants",
    "postgres.bare.drain": "Postgres: the bare loop",
    "postgres.drain": "Postgres: Holdfast",
    "postgres.drain.two": "Postgres: two processes",
    "postgres.drain.four": "Postgres: four processes",
    "postgres.drain.def": "Postgres: def tasks",
    "postgres.drain.keyed": "Postgres: 1,000 keys",
    "postgres.drain.fair": "Postgres: fair, 100 tenants",
}
_DELAYS: Final = {
    "sqlite.within": "SQLite, in process",
    "sqlite.across": "SQLite, across processes",
    "postgres.within": "Postgres, in process",
    "postgres.across": "Postgres, across processes",
}


def write(content: Mapping[str, Any], result: Path) -> list[Path]:
    """SVG files named after the result; those for which there is something to show."""
    written = []
    for name, text in drawn(content):
        path = result.with_name(f"{result.stem}-{name}.svg")
        path.write_text(text, "utf-8")
        written.append(path)
    return written


def drawn(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The plots by name."""
    peers = content["kind"] == "peers"
    values = _of_peers(content) if peers else _of_bench(content)
    if values:
        yield "drain", plots.bars("Jobs completed per second: a drain of jobs that do nothing", values)
    names = {key: key for key in content["distributions"]} if peers else _DELAYS
    shown = {names[key]: found for key, found in content["distributions"].items() if key in names}
    if shown:
        yield "latency", plots.curves("Idle latency: share of jobs whose handler started within", shown)


def _of_bench(content: Mapping[str, Any]) -> list[tuple[str, float, bool]]:
    figures = content["figures"]
    return [(label, median(figures[name]), ".bare." not in name) for name, label in _DRAINS.items() if name in figures]


def _of_peers(content: Mapping[str, Any]) -> list[tuple[str, float, bool]]:
    found = [(entry["key"], entry["drain"], entry["ours"]) for entry in content["entries"] if entry["drain"]]
    return sorted(found, key=lambda line: -line[1])
