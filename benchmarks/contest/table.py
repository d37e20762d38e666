"""The table of a match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from ..measure import Figure
from ..report import amount
from .match import BESIDE

HEADINGS = (
    "queue", "enqueue /s", "bulk /s", "drain /s", "two processes /s", "p50 / p99 ms", "killed worker",
    "drain, Holdfast ÷ queue",
)  # fmt: skip


def show(content: Mapping[str, Any], console: Console) -> None:
    table = Table(*HEADINGS)
    for column in table.columns[1:6]:
        column.justify = "right"
    for cells in lines(content):
        table.add_row(*cells)
    console.print(table)
    for entry in content["entries"]:
        console.print(f"{entry['key']}: {entry['version']}; {entry['setup']}")
    console.print(
        "Drains count from the first handler's start until the store shows nothing unfinished; on Postgres the better "
        "of a table without statistics and an analysed one. The last column is Holdfast's drain to the peer's, on the "
        "same kind of store (Postgres for Redis), pair by pair."
    )


def lines(content: Mapping[str, Any]) -> list[list[str]]:
    """The cells of each entry, as text; those that could not take part say why."""
    ratios = {row["key"]: Figure(row["values"]) for row in content["rows"]}
    found = []
    for entry in content["entries"]:
        ratio = ratios.get(f"{BESIDE[entry['needs']]} / {entry['key']}: drain")
        latency = f"{amount(entry['p50'])} / {amount(entry['p99'])}" if entry["p50"] is not None else ""
        killed = entry["killed"]["words"] if entry["killed"] else ""
        figures = [amount(entry[name]) for name in ("enqueue", "bulk", "drain", "two")]
        trouble = f"not measured: {entry['trouble'].splitlines()[0][:120]}" if entry["trouble"] else ""
        times = _times(ratio) if ratio else ""
        found.append([entry["key"], *figures, latency, killed or trouble, times])
    return found


def _times(ratio: Figure) -> str:
    spread = f" (±{ratio.spread / 2:.0%})" if len(ratio.values) > 1 else ""
    return f"{ratio.median:.1f}{spread}"
