"""Whether a newer result file is worse than an older one, beyond what the runs of each differ among themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from .measure import Figure
from .report import amount, load

FLOOR: Final = 0.05
"""What two runs of the same code may differ by, even if the runs within each agree."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both files. `better` is the change as a share of the old one, negative where it is worse."""

    key: str
    old: Figure
    new: Figure
    better: float
    noise: float

    @property
    def verdict(self) -> str:
        if self.better < -self.noise:
            return "worse"
        return "better" if self.better > self.noise else ""


def run(old: Path, new: Path, console: Console, *, rates: bool = False) -> int:
    """Show every change; 1 if something is worse, 0 if not.

    Of the table of goals, that is, of ratios where there are any: they depend little on the machine's mood. `rates`
    adds the rates themselves.
    """
    before, after = load(old), load(new)
    if before.get("kind") != after.get("kind"):
        console.print(f"{old} and {new} are results of different kinds")
        return 2
    if before["machine"].get("processor") != after["machine"].get("processor"):
        console.print("[yellow]The two were measured on different machines; only ratios mean something.[/]")
    found = changes(before, after, rates=rates)
    _show(found, console)
    for key in sorted(_values(before, rates).keys() - _values(after, rates).keys()):
        console.print(f"not measured any more: {key}")
    return 1 if any(change.verdict == "worse" for change in found) else 0


def changes(before: Mapping[str, Any], after: Mapping[str, Any], *, rates: bool = False) -> list[Change]:
    """Of every figure that both files have."""
    old, new = _values(before, rates), _values(after, rates)
    return [_change(key, *old[key], new[key][0]) for key in old if key in new]


def _change(key: str, old: Figure, fewer: bool, new: Figure) -> Change:
    gain = (new.median - old.median) / old.median if old.median else 0.0
    # Half of each range lies on either side of its median: beyond the sum of the halves the ranges hardly overlap.
    noise = max(FLOOR, (old.spread + new.spread) / 2)
    return Change(key, old, new, -gain if fewer else gain, noise)


def _values(content: Mapping[str, Any], rates: bool) -> dict[str, tuple[Figure, bool]]:
    """By key: the values of each run, and whether less is better."""
    rows = {row["key"]: (Figure(row["values"]), bool(row["fewer"])) for row in content["rows"] if row["values"]}
    figures = {name: (Figure(values), _is_cost(name)) for name, values in content["figures"].items() if rates}
    return {name: figure for name, figure in figures.items() if ".bare." not in name} | rows


def _is_cost(name: str) -> bool:
    return name.endswith((".p50", ".p99")) or ".idle." in name or ".memory." in name


def _show(found: list[Change], console: Console) -> None:
    table = Table("figure", "old", "new", "change", "noise", "")
    for column in table.columns[1:]:
        column.justify = "right"
    for cells in _cells(found):
        table.add_row(*cells)
    console.print(table)


def _cells(found: list[Change]) -> Iterator[tuple[str, ...]]:
    colours = {"worse": "red", "better": "green", "": "dim"}
    for change in found:
        sign = f"{change.better:+.0%}"
        verdict = f"[{colours[change.verdict]}]{change.verdict or 'same'}[/]"
        yield change.key, amount(change.old.median), amount(change.new.median), sign, f"{change.noise:.0%}", verdict
