"""The table at the end, for eyes and for files."""

from __future__ import annotations

import platform
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from .running import Verdict

_MARKED: Final = re.compile(r"(<!-- proof -->\n).*?(<!-- end of proof -->)", re.DOTALL)


def as_table(verdicts: Sequence[Verdict], seconds: float) -> str:
    table = Table("suite", "coverage", "seconds", "violations", title_justify="left")
    for verdict in verdicts:
        table.add_row(verdict.suite.name, verdict.words, f"{verdict.seconds:.0f}", str(verdict.violations))
    broken = sum(verdict.violations for verdict in verdicts)
    table.add_section()
    table.add_row("all", f"{sum(verdict.tests for verdict in verdicts):,} tests", f"{seconds:.0f}", str(broken))
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def as_data(verdicts: Sequence[Verdict], scale: float, seed: int, seconds: float) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "scale": scale,
        "seed": seed,
        "seconds": round(seconds),
        "suites": [
            {
                "name": verdict.suite.name,
                "figures": verdict.figures,
                "tests": verdict.tests,
                "violations": verdict.violations,
                "seconds": round(verdict.seconds, 1),
            }
            for verdict in verdicts
        ],
    }


def publish(page: Path, verdicts: Sequence[Verdict], scale: float, seconds: float) -> None:
    """Put the table between its marks in a page."""
    lines = ["| suite | coverage | seconds | violations |", "|---|---|---|---|"]
    lines += [f"| {one.suite.name} | {one.words} | {one.seconds:.0f} | {one.violations} |" for one in verdicts]
    where = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, two cores"
    lines += ["", f"One run of {seconds / 60:.0f} minutes at scale {scale:g}: {where}."]
    text = page.read_text("utf-8")
    page.write_text(_MARKED.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], text), "utf-8")
