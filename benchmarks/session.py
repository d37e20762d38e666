"""A session: every measurement in turn, several times over, so that a slow minute of the machine falls on all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .goals import Goal, goals
from .measure import Figure
from .probes import Probe


@dataclass(slots=True)
class Session:
    """What was found, by the names of the figures."""

    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    distributions: dict[str, list[float]] = field(default_factory=dict)
    """Of the last run."""
    absent: dict[str, str] = field(default_factory=dict)
    """Figures that could not be had, and why."""

    def measure(self, probes: Sequence[Probe], runs: int, say: Callable[[str], None]) -> None:
        """Forwards, then backwards, and so on: what drifts favours neither side of a pair."""
        for run in range(runs):
            for probe in probes if run % 2 == 0 else reversed(probes):
                say(f"run {run + 1} of {runs}: {', '.join(probe.gives)}")
                self._read(probe)

    def _read(self, probe: Probe) -> None:
        gc.collect()
        for name, value in probe.read().items():
            if isinstance(value, list):
                self.distributions[name] = value
            else:
                self.figures.setdefault(name, Figure()).values.append(value)

    def rows(self, only: str = "") -> list[dict[str, Any]]:
        """The table of goals, as plain data."""
        found = [_row(goal, self) for goal in wanted(only)]
        return [row for row in found if row["values"] or row["absent"]]

    def content(self, machine: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "kind": "bench",
            "at": time.strftime("%Y-%m-%d %H:%M"),
            "machine": machine,
            "settings": self.settings,
            "options": options,
            "rows": self.rows(str(options.get("only", ""))),
            "figures": {name: figure.values for name, figure in self.figures.items()},
            "distributions": self.distributions,
        }


def wanted(only: str) -> list[Goal]:
    """Goals that have the word in their key or their line of the table."""
    return [goal for goal in goals() if only in goal.key or only.lower() in f"{goal.store} {goal.work}".lower()]


def needed(probes: Iterable[Probe], only: str, without: str = "") -> list[Probe]:
    """Those that give a figure of a wanted goal; all of them if nothing is singled out."""
    names = {name for goal in wanted(only) for name in (goal.ours, goal.against)}
    found = [probe for probe in probes if not only or names.intersection(probe.gives)]
    return [probe for probe in found if not without or not any(without in name for name in probe.gives)]


def _row(goal: Goal, session: Session) -> dict[str, Any]:
    value = goal.value(session.figures)
    ours, against = session.figures.get(goal.ours), session.figures.get(goal.against)
    median = value.median if value else None
    return {
        "key": goal.key,
        "store": goal.store,
        "work": goal.work,
        "beside": goal.beside,
        "unit": goal.unit,
        "fewer": goal.fewer,
        "must": goal.must,
        "aim": goal.aim,
        "ours": ours.median if ours else None,
        "against": against.median if against else None,
        "values": value.values if value else [],
        "reached": median,
        "spread": value.spread if value else None,
        "meets_must": None if median is None else goal.reaches(median, goal.must),
        "meets_aim": None if median is None else goal.reaches(median, goal.aim),
        "absent": "" if value else session.absent.get(goal.ours) or session.absent.get(goal.against, ""),
    }
