"""Workers: list them, and mark one dead."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...errors import NotFound
from ...model.actions import DeclaredDead
from ...model.workers import WorkerInfo
from ..wire.call import Call
from ..wire.operation import Group
from .paging import Page, whole
from .types import Name

group = Group("Workers", "The processes that run jobs.")

_WHAT = "the workers"


class Death(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reason for marking a worker dead."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]


@group.get("/workers", needs="read")
async def list_workers(call: Call) -> Page[WorkerInfo]:
    """List the registered workers, oldest first."""
    return whole(await call.whole(_WHAT).workers.alist())


@group.get("/workers/{worker_id}", needs="read")
async def get_worker(call: Call, worker_id: Name) -> WorkerInfo:
    """Get a worker."""
    for worker in await call.whole(_WHAT).workers.alist():
        if worker.id == worker_id:
            return worker
    raise NotFound("worker", worker_id)


@group.post("/workers/{worker_id}/dead", needs="operate")
async def mark_worker_dead(call: Call, worker_id: Name, body: Death) -> DeclaredDead:
    """Mark a worker dead: its jobs are rescued now, and its process stops them if it is still running."""
    return await call.whole(_WHAT).workers.amark_dead(worker_id, body.reason, actor=call.actor)
