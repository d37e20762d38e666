"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import holdfast

RESULTS: Final = Path(__file__).with_name("results")

Row = Mapping[str, Any]


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cpus": str(os.cpu_count()),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def show(content: Mapping[str, Any], console: Console) -> None:
    """The table of goals, with what it was measured on."""
    for store, settings in content["settings"].items():
        console.print(f"[bold]{store}[/bold]  " + "  ".join(f"{name} {value}" for name, value in settings.items()))
    if content["options"].get("quick"):
        console.print("[yellow]Quick: small sizes, one run. It shows that everything works, not how fast.[/]")
    table = Table(
        "store", "workload", "compared with", "holdfast", "other", "result", "spread", "required", "target", ""
    )
    for column in table.columns[3:]:
        column.justify = "right"
    for row in content["rows"]:
        table.add_row(row["store"], row["work"], row["beside"], *cells(row), _verdict(row))
    console.print(table)
    console.print(
        f"Medians of {content['options'].get('runs')} runs, in which the two sides take turns; ratios are taken pair "
        "by pair. The spread is the distance of the extremes, as a share of the median."
    )


def cells(row: Row) -> list[str]:
    """Our figure, the other's, what was reached, its spread, must and aim, as text."""
    if not row["values"]:
        return ["", "", row["absent"], "", goal(row, "must"), goal(row, "aim")]
    ratio = row["unit"] == "×"
    return [
        amount(row["ours"]) if ratio else "",
        amount(row["against"]) if ratio else "",
        f"{amount(row['reached'])} {row['unit']}",
        f"{row['spread']:.0%}" if len(row["values"]) > 1 else "one run",
        goal(row, "must"),
        goal(row, "aim"),
    ]


def amount(value: float | None) -> str:
    """With as many digits as it deserves."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def goal(row: Row, name: str) -> str:
    limit = row[name]
    return "" if limit is None else f"{'≤' if row['fewer'] else '≥'} {limit:g} {row['unit']}"


def verdict(row: Row) -> str:
    """In one word."""
    if row["meets_must"] is None:
        return ""
    if not row["meets_must"]:
        return "missed"
    return "target met" if row["meets_aim"] else "met"


def save(content: Mapping[str, Any], name: str = "") -> Path:
    """Write everything, each single run included; the file's path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return path


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


def _verdict(row: Row) -> str:
    colours = {"missed": "red", "met": "yellow", "target met": "green", "": "dim"}
    word = verdict(row)
    return f"[{colours[word]}]{word}[/]"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
