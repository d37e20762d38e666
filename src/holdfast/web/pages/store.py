"""The store page: database health and advice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...app import App
from ...model.stats import HealthMinute, WorkerStats
from ...model.store import Capabilities
from ...runtime.opening import free_disk
from ...shapes.store import of_facts
from ..wire.call import Call
from ..wire.operation import Group
from .forms import Nothing
from .frame import Page
from .shared_reads import SharedRead
from .store_checks import Verdict, fact_verdicts, health_verdicts

group = Group("Store", kind="page")

_OPERATIONS: Final = 15
_MINUTES: Final = 240
_ROLES: Final = {
    "numbers": "aggregates statistics for the charts",
    "retention": "deletes old data",
    "schedules": "runs schedules",
    "totals": "splits queue totals across workers",
    "upkeep": "rescues jobs of lost workers and wakes due jobs",
    "webhooks": "sends events to webhook endpoints",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that change rarely and need the writer's connection."""

    facts: Mapping[str, Any]
    capabilities: Capabilities
    disk: int | None


_facts: Final = SharedRead[Facts](10.0)


@group.get("/store", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """Show the store and its health."""
    app = call.whole("the store")
    health, leaders, workers, known, past = await asyncio.gather(
        app.stats.astore(),
        app.stats.aleaders(),
        app.stats.aworkers(),
        _facts.at(app, None, lambda: _look(app)),
        app.stats.ahealth(_MINUTES),
    )
    verdicts = [*fact_verdicts(known.facts, workers), *health_verdicts(health, known.disk)]
    operations = sorted(app.stats.operations(), key=lambda one: -one.sum)[:_OPERATIONS]
    shown = {"operations": operations, "charts": charts_of(past)}
    return Page("store.html", {**shows(verdicts, known, leaders, workers), **shown})


async def _look(app: App) -> Facts:
    described, capabilities = await asyncio.gather(asyncio.to_thread(app.open().describe), app.acapabilities())
    return Facts(of_facts(described), capabilities, free_disk(app.config))


def shows(
    verdicts: list[Verdict], known: Facts, leaders: Mapping[str, str], workers: list[WorkerStats]
) -> dict[str, Any]:
    """Return the context of the page."""
    names = {worker.id: worker.name for worker in workers}
    worst = next((tone for tone in ("bad", "warn") if any(one.verdict == tone for one in verdicts)), "good")
    by_key = {one.key: one for one in verdicts}
    return {
        "page": "store",
        "verdicts": verdicts,
        "by_key": by_key,
        "worst": worst,
        "troubles": [one for one in verdicts if one.verdict in ("warn", "bad")],
        "facts": sorted((name.replace("_", " "), value) for name, value in known.facts.items()),
        "capabilities": known.capabilities,
        "leaders": [
            (role, _ROLES.get(role, ""), names.get(holder, holder)) for role, holder in sorted(leaders.items())
        ],
    }


def charts_of(past: Sequence[HealthMinute]) -> dict[str, dict[str, Any]]:
    """Return charts of the database size and of the workers' memory."""
    size = [("database", "accent", "bytes"), ("write-ahead log", "warn", "wal_bytes")]
    memory = [("all worker processes", "accent", "rss"), ("the largest", "warn", "rss_max")]
    return {"size": _chart(past, size), "memory": _chart(past, memory)}


def _chart(past: Sequence[HealthMinute], lines: list[tuple[str, str, str]]) -> dict[str, Any]:
    found = [(label, tone, [getattr(point, name) for point in past]) for label, tone, name in lines]
    series = [{"label": label, "tone": tone, "values": values} for label, tone, values in found if any(values)]
    starts = [int(point.minute.timestamp()) for point in past] if series else []
    return {"x": starts, "series": series, "unit": "bytes", "kind": "line"}
