"""The store: what it is, how it fares, and what to do where it does not fare well."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...app import App
from ...model.capabilities import Capabilities
from ...model.stats import WorkerStats
from ...opening import database_file
from ...shapes.store import of_facts
from ..wire.call import Call
from ..wire.operation import Group
from .asking import Nothing
from .frame import Page
from .sharing import SharedLook
from .storeverdicts import Verdict, fact_verdicts, health_verdicts

group = Group("Store", kind="page")

_ROLES: Final = {
    "numbers": "closes minutes, for the charts",
    "retention": "deletes what has been kept long enough",
    "schedules": "fires schedules",
    "totals": "splits totals over workers",
    "upkeep": "rescues jobs of lost workers, and wakes what is due",
    "webhooks": "relays events to endpoints",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What changes seldom, and costs the writer's connection to ask for."""

    facts: Mapping[str, Any]
    capabilities: Capabilities
    disk: int | None


_facts: Final = SharedLook[Facts](10.0)


@group.get("/store", needs="read")
async def show(call: Call, query: Nothing) -> Page:
    """What the store is and how it fares."""
    app = call.whole("the store")
    health, leaders, workers, known = await asyncio.gather(
        app.stats.astore(), app.stats.aleaders(), app.stats.aworkers(), _facts.at(app, None, lambda: _look(app))
    )
    verdicts = [*fact_verdicts(known.facts, workers), *health_verdicts(health, known.disk)]
    return Page("store.html", shows(verdicts, known, leaders, workers))


async def _look(app: App) -> Facts:
    described, capabilities = await asyncio.gather(asyncio.to_thread(app.open().describe), app.acapabilities())
    return Facts(of_facts(described), capabilities, _free(app))


def shows(
    verdicts: list[Verdict], known: Facts, leaders: Mapping[str, str], workers: list[WorkerStats]
) -> dict[str, Any]:
    """What the page shows."""
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


def _free(app: App) -> int | None:
    """Bytes that are free where the file is; None where there is no file."""
    file = database_file(app.config)
    try:
        return None if file is None else shutil.disk_usage(file.parent).free
    except OSError:
        return None
