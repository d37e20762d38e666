"""Jobs that wait: the verbs of the tests about signals, waitpoints and suspension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.clock import SECOND
from holdfast.model.jobs import Claimed, JobRecord
from holdfast.model.outcomes import Suspended
from holdfast.model.signals import Answer, Condition, Opened, Sent, Signal, Wait
from holdfast.storage.ops.signals import signals, suspension, waitpoints, waking

from .world import World

HOUR = 3600 * SECOND


@dataclass
class Waiter:
    """One job in a queue of its own, in the hands of a worker until it is suspended."""

    world: World
    id: str
    queue: str
    owner: str
    epoch: int

    def open(self, name: str = "approval", *, key: str | None = None, expires: int = HOUR, **more: Any) -> Opened:
        key = key or f"waitpoint:{name}#1"
        return self.world.run(waitpoints.open_waitpoint, self.owner, self.id, self.epoch, key, name, expires, **more)

    def take(self, wait: Wait) -> Answer | None:
        return self.world.run(suspension.take, self.owner, self.id, self.epoch, wait)

    def suspend(self, wait: Wait) -> None:
        self.world.finish(self.owner, self.claimed(), Suspended(wait))

    def go_on(self) -> Claimed:
        """Claim it again, as a worker does when it has been resumed."""
        job = self.world.take(self.owner, queues=[self.queue])
        assert job.id == self.id
        self.epoch = job.epoch
        return job

    @property
    def job(self) -> JobRecord:
        return self.world.job(self.id)

    @property
    def state(self) -> str:
        return str(self.job.state)

    def answer(self, key: str = "wait:approval#1") -> Answer | None:
        rows = self.world.sql("select value from holdfast_step where job_id = :id and key = :key", id=self.id, key=key)
        return Answer.decode(rows[0][0]) if rows else None

    def claimed(self) -> Any:
        return msgspec.structs.replace(_SOME, id=self.id, epoch=self.epoch)


_SOME = Claimed("", "", "", 0, "", "", 0, 0, None, None, None, 0, 0, 0, 0, None, None, 0, 0, 0)


def waiter(world: World, **fields: Any) -> Waiter:
    """A running job."""
    queue = world.name("waiting")
    owner = world.worker(queues=[queue])
    job_id = world.add(queue=queue, **fields)
    job = world.take(owner, queues=[queue])
    return Waiter(world, job_id, queue, owner, job.epoch)


def wait_for(
    *names: str,
    waitpoints: tuple[Opened, ...] = (),
    key: str = "wait:approval#1",
    needed: int = 1,
    distinct: Any = "signals",
    **more: Any,
) -> Wait:
    condition = Condition(
        names=names, waitpoints=tuple(place.id for place in waitpoints), needed=needed, distinct=distinct
    )
    return Wait(key=key, reason="signal", condition=condition, **more)


def suspended(world: World, wait: Wait, **fields: Any) -> Waiter:
    job = waiter(world, **fields)
    job.suspend(wait)
    return job


def send(world: World, job_id: str, name: str = "approval", payload: str = "true", **more: Any) -> Sent:
    return world.run(signals.send, job_id, Signal(name=name, payload=payload, **more))


def redeem(world: World, token: str, payload: str = "true", *, name: str = "", **more: Any) -> Sent | None:
    return world.run(signals.send_by_token, token, Signal(name=name, payload=payload, **more))


def payloads(answer: Answer | None) -> list[Any]:
    assert answer is not None
    return [msgspec.json.decode(item.payload) for item in answer.signals]


def wake(world: World) -> int:
    return world.run(waking.wake_due)


def pending_ids(world: World, **more: Any) -> list[str]:
    return [place.id for place in world.read(waitpoints.pending, **more)]
