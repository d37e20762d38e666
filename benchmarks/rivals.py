"""The goals that name another queue: huey and PgQueuer, measured in the same way and the same runs as Holdfast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .contest import trials
from .contest.catalogue import Entry, entry
from .contest.environments import Missing, installed
from .contest.stage import Stage
from .contest.venue import Venue
from .measure import Sizes
from .probes import Probe

# Figure, entry, and whether it is a drain or bulk; those that are compared stand together.
_FIGURES: Final = {
    "sqlite": [
        ("contest.huey.off", "huey-sqlite-off", "drain"),
        ("contest.sqlite.async", "holdfast-sqlite", "drain"),
        ("contest.sqlite.def", "holdfast-sqlite-def", "drain"),
        ("contest.huey.full", "huey-sqlite-full", "drain"),
    ],
    "postgres": [
        ("contest.pgqueuer", "pgqueuer", "drain"),
        ("contest.postgres.async", "holdfast-postgres", "drain"),
        ("contest.pgqueuer.bulk", "pgqueuer", "bulk"),
        ("contest.postgres.bulk", "holdfast-postgres", "bulk"),
    ],
}


def probes(venue: Venue, sizes: Sizes, store: str, absent: Mapping[str, str]) -> tuple[list[Probe], dict[str, str]]:
    """What can be measured, and what cannot with the reason."""
    found, missing = [], dict(absent)
    for kind, figures in _FIGURES.items():
        for name, key, work in figures if store in ("both", kind) else ():
            chosen = entry(key)
            try:
                environment = Path(sys.prefix) if chosen.ours else installed(chosen)
            except Missing as reason:
                missing[name] = str(reason)
                continue
            found.append(_probe(name, venue, chosen, environment, work, sizes))
    return found, missing


def _probe(name: str, venue: Venue, chosen: Entry, environment: Path, work: str, sizes: Sizes) -> Probe:
    measure: dict[str, Callable[[Stage], float]] = {
        # Neither side profits from statistics that an idle minute would have given it.
        "drain": lambda stage: trials.drain(stage, sizes.contested, analysed=chosen.needs == "postgres"),
        "bulk": lambda stage: trials.bulk(stage, 1_000 * sizes.bulks),
    }

    def read() -> dict[str, float | list[float]]:
        with venue.stage(chosen, environment) as stage:
            return {name: measure[work](stage)}

    return Probe((name,), read)
