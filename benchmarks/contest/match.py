"""Everyone in one run on one machine: figures of each entry, a kill test of each, and Holdfast's ratio to each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ..measure import Figure
from . import environments, trials
from .catalogue import ENTRIES, Entry
from .killing import Killed, kill_in_the_middle
from .stage import Stage
from .venue import Venue

BESIDE: Final = {"folder": "holdfast-sqlite", "postgres": "holdfast-postgres", "redis": "holdfast-postgres"}
"""Which of our entries a peer is compared with."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long the trials are."""

    runs: int = 3
    seconds: float = 3.0
    """Of each drain, roughly: a short one would mostly measure the start of the workers."""
    most: int = 150_000
    enqueued: int = 2_000
    bulk: int = 10_000
    samples: int = 200

    @classmethod
    def quick(cls) -> Lengths:
        return cls(runs=1, seconds=0, enqueued=100, bulk=1_000, samples=20)


@dataclass(slots=True)
class Match:
    """What was found so far."""

    lengths: Lengths
    say: Callable[[str], None]
    figures: dict[str, Figure] = field(default_factory=dict)
    distributions: dict[str, list[float]] = field(default_factory=dict)
    killed: dict[str, Killed] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    """Entries that could not take part, or failed, and why."""
    _sizes: dict[str, int] = field(default_factory=dict)

    def play(self, venue: Venue, only: str, *, kills: bool = True) -> None:
        """Every run has every entry once, so that a slow minute of the machine falls on all alike."""
        wanted = {entry.key for entry in ENTRIES if only in entry.key or only == entry.needs}
        # Without our own there is nothing to compare with.
        chosen = [entry for entry in ENTRIES if entry.key in wanted or (entry.ours and self.lengths.runs)]
        present = self._prepare(chosen)
        for run in range(self.lengths.runs):
            for entry, environment in present:
                self.say(f"run {run + 1} of {self.lengths.runs}: {entry.key}")
                self._attempt(entry, lambda e=entry, v=environment: self._measure(venue, e, v))  # type: ignore[misc]
        for entry, environment in present if kills else ():
            if entry.key not in wanted:
                continue
            self.say(f"kill test: {entry.key}")
            self._attempt(entry, lambda e=entry, v=environment: self._kill(venue, e, v))  # type: ignore[misc]

    def _prepare(self, entries: list[Entry]) -> list[tuple[Entry, Path]]:
        present = []
        for entry in entries:
            self.say(f"installing {entry.key}")
            try:
                environment = environments.prepare(entry)
            except environments.Missing as missing:
                self.trouble[entry.key] = str(missing)
                continue
            self.versions[entry.key] = environments.version(entry, environment)
            present.append((entry, environment))
        return present

    def _attempt(self, entry: Entry, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:
            self.trouble[entry.key] = f"{type(failure).__name__}: {failure}"[:500]

    def _measure(self, venue: Venue, entry: Entry, environment: Path) -> None:
        def each(name: str, work: Callable[[Stage], float]) -> None:
            with venue.stage(entry, environment) as stage:
                self._note(f"{entry.key}.{name}", work(stage))

        each("enqueue", lambda stage: trials.enqueue(stage, self.lengths.enqueued))
        if entry.bulk:
            each("bulk", lambda stage: trials.bulk(stage, self.lengths.bulk))
        count = self._size(venue, entry, environment)
        each("drain", lambda stage: trials.drain(stage, count))
        if entry.needs == "postgres":
            each("drain.analysed", lambda stage: trials.drain(stage, count, analysed=True))
        if entry.processes > 1:
            each("two", lambda stage: trials.drain(stage, count, processes=2))
        with venue.stage(entry, environment) as stage:
            delays = trials.delays(stage, self.lengths.samples)
        self._note(f"{entry.key}.p50", delays.p50)
        self._note(f"{entry.key}.p99", delays.p99)
        self.distributions[entry.key] = delays.quantiles

    def _size(self, venue: Venue, entry: Entry, environment: Path) -> int:
        """How many jobs take as long as a drain should."""
        if not self.lengths.seconds:
            return 300
        if entry.key not in self._sizes:
            with venue.stage(entry, environment) as stage:
                rate = trials.drain(stage, entry.jobs)
            self._sizes[entry.key] = max(500, min(self.lengths.most, round(rate * self.lengths.seconds, -2).__int__()))
        return self._sizes[entry.key]

    def _kill(self, venue: Venue, entry: Entry, environment: Path) -> None:
        with venue.stage(entry, environment) as stage:
            self.killed[entry.key] = kill_in_the_middle(stage)

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, Figure()).values.append(value)

    def content(self, machine: dict[str, str], settings: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "kind": "peers",
            "at": time.strftime("%Y-%m-%d %H:%M"),
            "machine": machine,
            "settings": settings,
            "options": options,
            "entries": [self._entry(entry) for entry in ENTRIES if self._is_known(entry)],
            "rows": self.rows(),
            "figures": {name: figure.values for name, figure in self.figures.items()},
            "distributions": self.distributions,
        }

    def rows(self) -> list[dict[str, Any]]:
        """The ratios of Holdfast to each peer, pair by pair."""
        found = []
        for entry in ENTRIES:
            for name in ("enqueue", "bulk", "drain", "two"):
                ours, theirs = self._best(BESIDE[entry.needs], name), self._best(entry.key, name)
                if entry.ours or ours is None or theirs is None:
                    continue
                ratios = [a / b for a, b in zip(ours.values, theirs.values, strict=False)]
                found.append({"key": f"{BESIDE[entry.needs]} / {entry.key}: {name}", "values": ratios, "fewer": False})
        return found

    def _best(self, key: str, name: str) -> Figure | None:
        """Statistics help some peers and harm others; each is shown as it does best."""
        plain, analysed = self.figures.get(f"{key}.{name}"), self.figures.get(f"{key}.{name}.analysed")
        if plain and analysed and analysed.median > plain.median:
            return analysed
        return plain

    def _entry(self, entry: Entry) -> dict[str, Any]:
        names = ("enqueue", "bulk", "drain", "two", "p50", "p99")
        figures = {name: self._best(entry.key, name) for name in names}
        killed = self.killed.get(entry.key)
        return {
            "key": entry.key,
            "version": self.versions.get(entry.key, ""),
            "setup": entry.setup,
            "needs": entry.needs,
            "ours": entry.ours,
            "jobs": self._sizes.get(entry.key),
            **{name: figure.median if figure else None for name, figure in figures.items()},
            "spread": figures["drain"].spread if figures["drain"] else None,
            "killed": {**asdict(killed), "words": killed.words()} if killed else None,
            "trouble": self.trouble.get(entry.key, ""),
        }

    def _is_known(self, entry: Entry) -> bool:
        return entry.key in self.versions or entry.key in self.trouble
