"""A claim for a remote worker, which may wait for jobs: a wake-up is a hint, polling is the guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ..clock import SECOND, SYSTEM_CLOCK
from ..model.jobs import Claimed
from ..model.outcomes import Failed, Finish
from ..model.remote import LeasedJob
from ..model.values import instant_of
from ..model.workers import WorkerRecord
from ..rules.failure import error_text
from ..storage.ops import remote
from ..storage.ops.routing.grants import expire_grants
from ..storage.ops.workers.lookout import Lookout, look
from ..storage.port import Op
from ..worker.claiming.remote import Preparing, RemoteClaim, Tasks, claim_for, routes_of
from .lines import Line

_SHORTEST: Final = 0.05
_MOST_ROUNDS: Final = 100
# The share of its lease: a worker that waits longer without a beat could be declared lost.
_LONGEST_SHARE: Final = 0.5


async def claim(
    line: Line,
    tasks: Tasks,
    worker: WorkerRecord,
    limit: int,
    wait: float,
    token: str,
    *,
    random: Callable[[], float],
    poll: float,
) -> list[Ready]:
    """Claim jobs that may start now; nothing if none came within the wait. It also polls every `poll` seconds."""
    claiming = _Claiming(line, tasks, worker, limit, token, random)
    # Before the first claim: jobs that are enqueued from now on cause a wake-up.
    listener = line.store.wakeups.listen([f"queue:{queue}" for queue in worker.queues])
    try:
        until = SYSTEM_CLOCK.monotonic() + min(wait, worker.lease / SECOND * _LONGEST_SHARE)
        found = await claiming.take(renew=True)
        while not found and (left := until - SYSTEM_CLOCK.monotonic()) > 0:
            rang = await line.wait_for_notice(listener, min(left, _rest(await claiming.look(), poll)))
            if rang or (await claiming.look()).may_claim:
                found = await claiming.take(renew=False)
        return found
    finally:
        listener.close()


class Ready:
    """A job that may start, and the time of its claim by the store's clock."""

    __slots__ = ("arguments", "job", "now")

    def __init__(self, job: Claimed, arguments: dict[str, Any], now: int) -> None:
        self.job = job
        self.arguments = arguments
        self.now = now

    def under(self, handle: str) -> LeasedJob:
        job = self.job
        return LeasedJob(
            handle=handle,
            id=job.id,
            task=job.task,
            queue=job.queue,
            tenant=job.tenant,
            arguments=self.arguments,
            attempt=job.attempt,
            max_attempts=job.max_attempts or None,
            generation=job.generation,
            timeout=None if job.timeout is None else job.timeout / SECOND,
            deadline=None if job.time_left is None else instant_of(self.now + job.time_left),
            tags=tuple(json.loads(job.tags)) if job.tags else (),
            trace=job.trace,
            flow=job.flow,
            priority=job.priority,
            created_at=instant_of(job.created_at),
        )


class _Claiming:
    """One claim, repeated as often as needed, under one token."""

    def __init__(
        self, line: Line, tasks: Tasks, worker: WorkerRecord, limit: int, token: str, random: Callable[[], float]
    ) -> None:
        self._line = line
        self._tasks = tasks
        self._worker = worker
        self._limit = limit
        self._token = token
        self._preparing = Preparing(line, tasks, random)

    async def look(self) -> Lookout:
        me, served = self._worker.id, routes_of(self._worker).numbers
        view = await self._line.read(Op(lambda tx: look(tx, me, served)))
        if view.grants_over:
            await self._line.write(Op(expire_grants))
        return view

    async def take(self, *, renew: bool) -> list[Ready]:
        """Claim jobs that may start now. Those over a limit, or that end before they begin, do not hide the others."""
        for _ in range(_MOST_ROUNDS):
            found = await self._claim_once(renew=renew)
            ready, refused = await self._prepare(found.jobs, found.now)
            if ended := [*found.ended, *refused]:
                await self._line.write(Op(lambda tx: remote.finish(tx, self._worker.id, ended)))
            if ready or not (ended or found.parked):
                return ready
        return []

    async def _claim_once(self, *, renew: bool) -> RemoteClaim:
        me, limit, token, tasks = self._worker.id, self._limit, self._token, self._tasks
        # Durable, unlike our own claims: a remote worker may survive a power failure of the store's host.
        return await self._line.write(Op(lambda tx: claim_for(tx, me, limit, token, tasks, renew=renew)))

    async def _prepare(self, jobs: Sequence[Claimed], now: int) -> tuple[list[Ready], list[Finish]]:
        ready: list[Ready] = []
        ended: list[Finish] = []
        for job in jobs:
            prepared = await self._preparing.prepare(self._worker.id, job, now)
            answer = _read(prepared, now) if isinstance(prepared, Claimed) else prepared
            if isinstance(answer, Ready):
                ready.append(answer)
            else:
                ended.append(Finish(job.id, job.epoch, answer))
        return ready, ended


def _read(job: Claimed, now: int) -> Ready | Failed:
    try:
        return Ready(job, msgspec.json.decode(job.payload, type=dict[str, Any]), now)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Failed("undecodable", error_text(error))


def _rest(view: Lookout, poll: float) -> float:
    return poll if view.next_due is None else min(poll, max(_SHORTEST, view.next_due / SECOND))
