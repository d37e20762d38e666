"""Limits over the whole cluster: `app.limits`. Each method has an async version; actions are audited."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import InvalidInput
from ..model.limits import Lane, LimitsView, Undeclared, queue_lane, task_lane
from ..names import check_limit, check_name, check_queue, check_rate
from ..rules.limits import parse_rate, rate_scope
from ..storage.ops import tenants
from ..storage.ops.audit import audit
from ..storage.ops.limits import breakers, lanes, rates, totals
from ..storage.ops.limits.undeclared import waited_for
from ..storage.port import Op, Store, Tx
from ..tasks.task import Task
from .audit import removal
from .calls import composed, reads, writes
from .lines import Line


class Limits:
    """Concurrency of tasks, queues and keys, and rates by scope."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def show(self) -> Op[LimitsView]:
        """Return every limit and how much of it is in use."""
        return Op(_view)

    ashow = show.awaiting

    @reads
    def undeclared(self) -> Op[list[Undeclared]]:
        """Return the rates and breakers that jobs wait for and that are not declared."""
        return Op(waited_for)

    aundeclared = undeclared.awaiting

    @writes
    def set_concurrency(
        self, n: int, *, task: str | None = None, queue: str | None = None, actor: str = "app", reason: str = ""
    ) -> Op[None]:
        """Let at most `n` jobs of a task or of a queue run at once. Those that run already are not counted."""
        key, capacity = _lane(task, queue), check_limit("the limit", n)

        async def run(tx: Tx) -> None:
            await lanes.set_lane(tx, key, capacity)
            await audit(tx, actor=actor, action="limit.set", target=key, reason=reason, after={"capacity": capacity})

        return Op(run)

    aset_concurrency = set_concurrency.awaiting

    @writes
    def clear_concurrency(
        self, *, task: str | None = None, queue: str | None = None, actor: str = "app", reason: str = ""
    ) -> Op[bool]:
        """Remove that limit; False if there was none."""
        key = _lane(task, queue)
        return removal(
            lambda tx: lanes.remove_lane(tx, key), action="limit.clear", target=key, actor=actor, reason=reason
        )

    aclear_concurrency = clear_concurrency.awaiting

    @writes
    def set_rate(
        self, scope: str, *, capacity: float, per_second: float, actor: str = "app", reason: str = ""
    ) -> Op[None]:
        """Create or change a token bucket: up to `capacity` at once, `per_second` sustained."""
        name, most, refill = _checked(scope, capacity, per_second)

        async def run(tx: Tx) -> None:
            await rates.ensure(tx, name, most, refill, origin="operator")
            after = {"capacity": most, "per_second": refill}
            await audit(tx, actor=actor, action="rate.set", target=name, reason=reason, after=after)

        return Op(run)

    aset_rate = set_rate.awaiting

    @writes
    def clear_rate(self, scope: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Remove a bucket; False if there was none. Jobs that name its scope wait until there is one again."""
        return removal(
            lambda tx: rates.remove(tx, scope), action="rate.clear", target=scope, actor=actor, reason=reason
        )

    aclear_rate = clear_rate.awaiting

    @writes
    def set_total(self, queue: str, total: int | None, *, actor: str = "app", reason: str = "") -> Op[None]:
        """Limit the concurrency of a queue to `total`, split over the live workers that serve it; None is no limit.

        Unlike a concurrency limit it costs nothing per job: each worker keeps its own share.
        """
        name = check_queue(queue)
        most = None if total is None else check_limit("the total", total)

        async def run(tx: Tx) -> None:
            await totals.set_total(tx, name, most)
            await audit(tx, actor=actor, action="queue.total", target=name, reason=reason, after={"total": most})

        return Op(run)

    aset_total = set_total.awaiting

    @writes
    def drain(self, scope: str, *, actor: str | None = "app", reason: str = "") -> Op[None]:
        """Empty a bucket, after the other side has refused. Without an `actor`, as in a run, it is not audited."""
        if actor is None:
            return Op(lambda tx: rates.drain(tx, scope), single=True)

        async def run(tx: Tx) -> None:
            await rates.drain(tx, scope)
            await audit(tx, actor=actor, action="rate.drain", target=scope, reason=reason)

        return Op(run)

    adrain = drain.awaiting

    @composed
    async def acquire(self, line: Line, scope: str) -> float:
        """Take a token; return 0, or the seconds until there will be one. NotFound for an unknown scope."""
        return await line.write(Op(lambda tx: rates.acquire(tx, scope))) / 1e6

    aacquire = acquire.awaiting


class TenantLimits:
    """The limits by key that a tenant's own jobs ask for."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    @reads
    def list(self) -> Op[builtins.list[Lane]]:
        """Return the limits, each with its use."""
        return Op(lambda tx: tenants.lanes_of(tx, self._tenant))

    alist = list.awaiting


def declare_rate(scope: str, capacity: float | None, per_second: float) -> Op[None]:
    """Declare a rate in code; an operator's settings take precedence."""
    refill = check_rate("per_second", per_second)
    name, most, refill = _checked(scope, max(1.0, refill) if capacity is None else capacity, refill)
    return Op(lambda tx: rates.ensure(tx, name, most, refill, origin="code"), single=True)


def task_limits(task: Task[Any, Any]) -> Iterator[Op[None]]:
    """Declare the limits that a task has of its own; an operator's settings take precedence."""
    n, rate = task.task_options.concurrency, task.task_options.rate
    if n is not None:
        yield Op(lambda tx: lanes.set_lane(tx, task_lane(task.name), n, origin="code"))
    if rate is not None and (said := parse_rate(rate)):
        yield declare_rate(rate_scope(task.name, rate), said.burst, said.per_second)


async def _view(tx: Tx) -> LimitsView:
    return LimitsView(
        lanes=await lanes.list_lanes(tx),
        rates=await rates.count_keys(tx, await rates.list_buckets(tx)),
        totals=await totals.totals(tx),
        breakers=[one.shown for one in await breakers.list_breakers(tx)],
    )


def _checked(scope: str, capacity: float, per_second: float) -> tuple[str, float, float]:
    return check_name("the scope", scope), check_rate("capacity", capacity), check_rate("per_second", per_second)


def _lane(task: str | None, queue: str | None) -> str:
    if task is not None and queue is None:
        return task_lane(check_name("task", task))
    if queue is not None and task is None:
        return queue_lane(check_queue(queue))
    raise InvalidInput("name either a task or a queue")
