"""Limits over the whole cluster: `app.limits`. Each method that acts has an awaiting twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import InvalidInput
from ..model.limits import Bucket, Lane, queue_lane, task_lane
from ..names import check_limit, check_name, check_queue, check_rate
from ..storage.ops import lanes, rates
from ..storage.port import Op, Store, Tx


@dataclass(frozen=True, slots=True)
class LimitsView:
    """Every limit and how it stands."""

    lanes: list[Lane]
    buckets: list[Bucket]


class Limits:
    """Concurrency of tasks, queues and keys, and rates by scope."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def show(self) -> LimitsView:
        """Every limit and how much of it is in use."""
        return self._store().read(Op(_view))

    async def ashow(self) -> LimitsView:
        return await self._store().aread(Op(_view))

    def set_concurrency(self, n: int, *, task: str | None = None, queue: str | None = None) -> None:
        """Let at most `n` jobs of a task or of a queue run at once. Jobs that already run are not counted."""
        self._store().write(_set(n, task, queue))

    async def aset_concurrency(self, n: int, *, task: str | None = None, queue: str | None = None) -> None:
        await self._store().awrite(_set(n, task, queue))

    def clear_concurrency(self, *, task: str | None = None, queue: str | None = None) -> bool:
        """Remove that limit; False if there was none."""
        key = _lane(task, queue)
        return self._store().write(Op(lambda tx: lanes.remove_lane(tx, key)))

    async def aclear_concurrency(self, *, task: str | None = None, queue: str | None = None) -> bool:
        key = _lane(task, queue)
        return await self._store().awrite(Op(lambda tx: lanes.remove_lane(tx, key)))

    def set_rate(self, scope: str, *, capacity: float, per_second: float) -> None:
        """Make or change a token bucket: up to `capacity` at once, `per_second` in the long run."""
        self._store().write(_rate(scope, capacity, per_second, "operator"))

    async def aset_rate(self, scope: str, *, capacity: float, per_second: float) -> None:
        await self._store().awrite(_rate(scope, capacity, per_second, "operator"))

    def clear_rate(self, scope: str) -> bool:
        """Remove a bucket. Jobs that name its scope wait until there is one again."""
        return self._store().write(Op(lambda tx: rates.remove(tx, scope)))

    async def aclear_rate(self, scope: str) -> bool:
        return await self._store().awrite(Op(lambda tx: rates.remove(tx, scope)))

    def drain(self, scope: str) -> None:
        """Empty a bucket, after the other side has refused."""
        self._store().write(Op(lambda tx: rates.drain(tx, scope)))

    async def adrain(self, scope: str) -> None:
        await self._store().awrite(Op(lambda tx: rates.drain(tx, scope)))

    def acquire(self, scope: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there will be."""
        return self._store().write(Op(lambda tx: rates.acquire(tx, scope))) / 1e6

    async def aacquire(self, scope: str) -> float:
        return await self._store().awrite(Op(lambda tx: rates.acquire(tx, scope))) / 1e6


def declare_rate(scope: str, capacity: float, per_second: float) -> Op[None]:
    """What code says about a rate; an operator's word stands above it."""
    return _rate(scope, capacity, per_second, "code")


def declare_concurrency(task: str, n: int) -> Op[None]:
    """What code says about a task's concurrency; an operator's word stands above it."""
    return Op(lambda tx: lanes.set_lane(tx, task_lane(task), n, origin="code"))


async def _view(tx: Tx) -> LimitsView:
    return LimitsView(await lanes.list_lanes(tx), await rates.list_buckets(tx))


def _set(n: int, task: str | None, queue: str | None) -> Op[None]:
    key, capacity = _lane(task, queue), check_limit("the limit", n)
    return Op(lambda tx: lanes.set_lane(tx, key, capacity))


def _rate(scope: str, capacity: float, per_second: float, origin: str) -> Op[None]:
    name = check_name("the scope", scope)
    most, refill = check_rate("capacity", capacity), check_rate("per_second", per_second)
    return Op(lambda tx: rates.ensure(tx, name, most, refill, origin=origin))


def _lane(task: str | None, queue: str | None) -> str:
    if (task is None) == (queue is None):
        raise InvalidInput("name either a task or a queue")
    return task_lane(check_name("task", task)) if task is not None else queue_lane(check_queue(queue))
