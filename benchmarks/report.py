"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import holdfast

from .measure import Figure


@dataclass(slots=True)
class Line:
    """One kind of work on one store. `raw` is the bare loop that it is compared with."""

    work: str
    raw: Figure | None = None
    ours: Figure = field(default_factory=Figure)
    must: float | None = None
    """The ratio to reach."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours.median / self.raw.median if self.raw and self.raw.values else None


@dataclass(slots=True)
class Wait:
    """Delays of one run each, in milliseconds, with the limits to stay below."""

    work: str
    p50: Figure = field(default_factory=Figure)
    p99: Figure = field(default_factory=Figure)
    must: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class Section:
    """All figures of one store."""

    store: str
    settings: dict[str, str]
    lines: list[Line] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)


def show(sections: list[Section], console: Console) -> None:
    for section in sections:
        console.print(f"\n[bold]{section.store}[/bold]  " + "  ".join(f"{k} {v}" for k, v in section.settings.items()))
        console.print(_rates(section))
        console.print(_delays(section))
    console.print(
        "Ratios are medians of one run beside the bare loop. ± is the distance of the extremes in one series."
    )


def save(sections: list[Section], folder: Path, options: Mapping[str, Any]) -> Path:
    """Write everything, each single run included; the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    content = {"machine": machine(), "options": dict(options), "sections": [asdict(section) for section in sections]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": str(os.cpu_count()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _rates(section: Section) -> Table:
    table = Table("work", "bare loop /s", "holdfast /s", "ratio", "must")
    for line in section.lines:
        ratio = line.ratio
        table.add_row(
            f"{line.work}\n[dim]{line.note}[/dim]" if line.note else line.work,
            _rate(line.raw),
            _rate(line.ours),
            "" if ratio is None else f"{ratio:.2f}",
            _goal(ratio, line.must),
        )
    return _right(table)


def _delays(section: Section) -> Table:
    table = Table("idle latency", "p50 ms", "p99 ms", "must")
    for wait in section.waits:
        met = wait.p50.median <= wait.must[0] and wait.p99.median <= wait.must[1]
        table.add_row(
            wait.work, _delay(wait.p50), _delay(wait.p99), _colour(f"{wait.must[0]:g} / {wait.must[1]:g}", met)
        )
    return _right(table)


def _right(table: Table) -> Table:
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _rate(figure: Figure | None) -> str:
    return f"{figure.median:,.0f} ±{figure.spread:.0%}" if figure and figure.values else ""


def _delay(figure: Figure) -> str:
    return f"{figure.median:.2f} ±{figure.spread:.0%}" if figure.values else ""


def _goal(ratio: float | None, must: float | None) -> str:
    return "" if must is None or ratio is None else _colour(f"{must:g}", ratio >= must)


def _colour(text: str, met: bool) -> str:
    return f"[{'green' if met else 'red'}]{text}[/]"
