"""What an idle worker looks at: whom it may serve, under which limits, and when it should look again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ...model.limits import Standing
from ...model.queue import QueueSettings
from ...model.route import Route
from ..port import Tx
from .breakers import restless
from .claims import next_due, suspects_wait
from .lanes import next_token
from .queues import list_queues
from .rates import standing
from .routes import special_routes
from .totals import shares_of


@dataclass(frozen=True, slots=True)
class Lookout:
    """The view of one moment. `next_due` is in microseconds; None if nothing comes due by time alone."""

    routes: list[Route]
    suspects_wait: bool
    standing: Standing
    shares: dict[str, int]
    """Of each queue that has a total: how many of its jobs this worker may run."""
    next_due: int | None
    queues: list[QueueSettings]


async def look(tx: Tx, worker_id: str, served: Collection[int]) -> Lookout:
    breakers, next_trial = await restless(tx)
    waits = [wait for wait in (await next_due(tx), await next_token(tx), next_trial) if wait is not None]
    return Lookout(
        routes=await special_routes(tx),
        suspects_wait=await suspects_wait(tx, served),
        standing=replace(await standing(tx), breakers=breakers),
        shares=await shares_of(tx, worker_id),
        next_due=min(waits, default=None),
        queues=await list_queues(tx),
    )
