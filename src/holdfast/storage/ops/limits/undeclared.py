"""Rates and breakers that jobs or tasks name, and that are not declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ....model.limits import Undeclared, breaker_it_follows, breaker_lane, rate_lane
from ....rules.limits import missing_scopes
from ...port import Tx
from ...statements import sql
from ..jobs.queries import get_job
from .breakers import existing
from .lanes import parked_lanes

_KINDS = (rate_lane(""), breaker_lane(""))


async def waited_for(tx: Tx) -> list[Undeclared]:
    """Return the undeclared ones for which jobs wait, each with the first job and its task."""
    lanes = [lane for lane in await parked_lanes(tx) if lane.startswith(_KINDS)]
    found: list[Undeclared] = []
    for (kind, name), lane in (await _missing(tx, lanes)).items():
        if row := await tx.one(sql.first_parked, lane=lane):
            job = await get_job(tx, row[0])
            found.append(Undeclared(kind, name, (job.task,), job.id))
    return found


async def named_by(tx: Tx, tasks: Mapping[str, Sequence[str]]) -> list[Undeclared]:
    """Return the undeclared ones that tasks name, from the tasks by lane."""
    return [Undeclared(*named, tuple(tasks[lane])) for named, lane in (await _missing(tx, tasks)).items()]


async def _missing(tx: Tx, lanes: Collection[str]) -> dict[tuple[str, str], str]:
    if not lanes:
        return {}
    scopes = {lane.removeprefix(breaker_lane("")) for lane in lanes if lane.startswith(breaker_lane(""))}
    breakers = await existing(tx, scopes | {it for scope in scopes if (it := breaker_it_follows(scope))})
    return missing_scopes(lanes, {row[0] for row in await tx.all(sql.bucket_scopes)}, breakers)
