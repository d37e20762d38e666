"""Fair shares of a queue: each key's jobs are ranked so that keys take turns, in proportion to their weights.

A rank is a virtual time: the head of the queue is now, and each job of a key comes a step after the one before. So a
key with 100,000 waiting jobs delays another's first job by one job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ....model.jobs import Fair, JobSpec
from ....model.limits import fair_lane
from ...port import Tx
from ...statements import sql

# Small compared with real time, so that a long backlog of yesterday costs a key nothing today; large enough for
# weights up to 64.
_STEP: Final = 64


async def fair_ranks(tx: Tx, specs: Sequence[JobSpec]) -> dict[int, int]:
    """Return the rank of each job that has a fair share, by its position."""
    shares: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
    for i, spec in enumerate(specs):
        if spec.fair is not None:
            lane, step = _share(spec, spec.fair)
            shares[lane, spec.route.number, step].append(i)
    ranks: dict[int, int] = {}
    for (lane, route, step), members in sorted(shares.items()):
        row = await tx.one(sql.next_fair_rank, key=lane, route=route, width=step * len(members))
        assert row is not None
        ranks |= {i: row[0] - step * (len(members) - place) for place, i in enumerate(members)}
    return ranks


async def give_back(tx: Tx, specs: Sequence[JobSpec]) -> None:
    """Undo the steps that `fair_ranks` took for jobs that were not created. The lanes are still locked."""
    widths: defaultdict[str, int] = defaultdict(int)
    for spec in specs:
        if spec.fair is not None:
            lane, step = _share(spec, spec.fair)
            widths[lane] += step
    for lane, width in widths.items():
        await tx.one(sql.give_back_fair_rank, key=lane, width=width)


def _share(spec: JobSpec, fair: Fair) -> tuple[str, int]:
    """Return the lane of a job's key, and how far each job moves it."""
    return fair_lane(spec.route.queue, spec.tenant, fair.key), max(1, round(_STEP / fair.weight))
