"""Queues as an operator sees and sets them: `app.queues`. Each method has an async version."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import EllipsisType
from typing import Final, Literal, TypeAlias

from ..errors import InvalidInput
from ..model.answers import Count
from ..model.queues import QueueBrief, QueueSettings, QueueState
from ..model.routing import Stranded
from ..model.stats import QueueStats
from ..model.values import seconds_of
from ..names import check_cap, check_duration, check_queue
from ..rules.retry import RetryPolicy, check_policy
from ..storage.ops import queues, tenants
from ..storage.ops.jobs import counting, queries
from ..storage.ops.routing.stranded import stranded
from ..storage.ops.workers.workers import list_workers
from ..storage.port import Op, Store, Tx, Value
from .calls import composed, reads, writes
from .lines import Line

Keep: TypeAlias = "float | timedelta | EllipsisType | None"
"""Seconds or a timedelta; None goes back to the default, `...` leaves it as it is."""
Level: TypeAlias = "Literal['off', 'outcomes', 'all'] | EllipsisType | None"
"""The events of a queue that are logged; None goes back to the default, `...` leaves it as it is."""


logger: Final = logging.getLogger("holdfast")
_ACTIONS: Final = {
    QueueState.PAUSED: "queue.pause",
    QueueState.ACTIVE: "queue.resume",
    QueueState.DRAINING: "queue.drain",
    QueueState.DISABLED: "queue.disable",
}
SETTINGS: Final[Sequence[str]] = (
    "retry", "timeout", "keep_succeeded", "keep_failed", "keep_cancelled", "keep_expired", "keep_skipped",
    "keep_result", "cap", "events",
)  # fmt: skip


class Queues:
    """The queues of one app."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @reads
    def list(self) -> Op[builtins.list[QueueBrief]]:
        """Return every queue that has jobs or settings of its own."""
        return Op(_briefs)

    alist = list.awaiting

    @reads
    def tasks(self, queue: str) -> Op[builtins.list[str]]:
        """Return the names of the tasks that have jobs in a queue."""
        name = check_queue(queue)
        return Op(lambda tx: queues.tasks_of(tx, name))

    atasks = tasks.awaiting

    @writes
    def notify(self, queue: str) -> Op[None]:
        """Wake the workers of a queue, after your program has written jobs to the tables itself."""
        name = check_queue(queue)
        return Op(lambda tx: queues.notify(tx, name), single=True)

    anotify = notify.awaiting

    @reads
    def stranded(self) -> Op[builtins.list[Stranded]]:
        """Return jobs that could start and that no live worker can run: by route, the first and what is missing."""
        return Op(stranded)

    astranded = stranded.awaiting

    @reads
    def get(self, queue: str) -> Op[QueueSettings]:
        """Return a queue's state and settings; the defaults if none are set."""
        name = check_queue(queue)

        async def run(tx: Tx) -> QueueSettings:
            return (await queues.get_queue(tx, name)).settings

        return Op(run, single=True)

    aget = get.awaiting

    @composed
    async def pause(self, line: Line, queue: str, *, actor: str = "app", reason: str = "") -> QueueSettings:
        """Accept jobs but start none, in every worker."""
        return _warned(await line.write(_move(queue, QueueState.PAUSED, actor, reason)))

    apause = pause.awaiting

    @composed
    async def resume(self, line: Line, queue: str, *, actor: str = "app", reason: str = "") -> QueueSettings:
        """Accept and start jobs again."""
        return _warned(await line.write(_move(queue, QueueState.ACTIVE, actor, reason)))

    aresume = resume.awaiting

    @composed
    async def drain(self, line: Line, queue: str, *, actor: str = "app", reason: str = "") -> QueueSettings:
        """Start the waiting jobs and refuse new ones with QueueClosed."""
        return _warned(await line.write(_move(queue, QueueState.DRAINING, actor, reason)))

    adrain = drain.awaiting

    @composed
    async def disable(self, line: Line, queue: str, *, actor: str = "app", reason: str = "") -> QueueSettings:
        """Start no jobs and refuse new ones with QueueClosed."""
        return _warned(await line.write(_move(queue, QueueState.DISABLED, actor, reason)))

    adisable = disable.awaiting

    @writes
    def set(
        self, /, queue: str, *, actor: str = "app", reason: str = "", events: Level = ..., **changes: Keep | RetryPolicy
    ) -> Op[QueueSettings]:
        """Change settings: retry, timeout, keep_succeeded, keep_failed, keep_cancelled, keep_expired, keep_skipped,
        keep_result, cap, events. Durations are seconds; None goes back to the default. `keep_succeeded=0` deletes on
        success. `cap` is the largest number of finished jobs to keep, whatever their age. `events` are those that are
        logged: "off", "outcomes" (the default) or "all".
        """
        name = check_queue(queue)
        given = {**changes, "events": events}
        wanted = {key: _checked(key, value) for key, value in given.items() if value is not ...}

        async def run(tx: Tx) -> QueueSettings:
            after = await queues.change_queue(tx, name, wanted, action="queue.set", actor=actor, reason=reason)
            return after.settings

        return Op(run)

    aset = set.awaiting


class TenantQueues:
    """The queues in which a tenant has jobs."""

    def __init__(self, store: Callable[[], Store], tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    @reads
    def list(self) -> Op[builtins.list[QueueBrief]]:
        """Return the queues, each with its state and the number of the tenant's jobs in each state."""
        return Op(lambda tx: _of_tenant(tx, self._tenant))

    alist = list.awaiting

    @reads
    def stats(self) -> Op[builtins.list[QueueStats]]:
        """Return the queues, each with its state and the number of the tenant's jobs with each label."""
        return Op(lambda tx: _stats(tx, self._tenant))

    astats = stats.awaiting

    @reads
    def get(self, name: str) -> Op[QueueStats]:
        """Return one queue; one in which the tenant has no jobs is empty."""
        wanted = check_queue(name)

        async def run(tx: Tx) -> QueueStats:
            found = await _stats(tx, self._tenant)
            return next((queue for queue in found if queue.name == wanted), None) or QueueStats.of(wanted)

        return Op(run)

    aget = get.awaiting


def _move(
    queue: str, state: QueueState, actor: str, reason: str
) -> Op[tuple[QueueSettings, builtins.list[str] | None]]:
    name, action = check_queue(queue), _ACTIONS[state]

    async def move(tx: Tx) -> tuple[QueueSettings, builtins.list[str] | None]:
        known = await _known(tx)
        after = await queues.change_queue(tx, name, {"state": state}, action=action, actor=actor, reason=reason)
        return after.settings, None if name in known else sorted(known)

    return Op(move)


async def _known(tx: Tx) -> set[str]:
    """Return the queues that have jobs, settings or a worker."""
    named = {item.name for item in await queues.list_queues(tx)} | {
        item.queue for item in await counting.count_jobs(tx)
    }
    return named.union(*(worker.queues for worker in await list_workers(tx)))


def _warned(moved: tuple[QueueSettings, builtins.list[str] | None]) -> QueueSettings:
    """Log a warning for a queue that may be mistyped; it may also get its first jobs later."""
    after, others = moved
    if others is not None:
        there = f"those that have are {', '.join(others)}" if others else "there is no such queue yet"
        logger.warning("queue %r has no jobs, settings or workers so far; %s", after.name, there)
    return after


def _checked(name: str, value: object) -> Value:
    if name not in SETTINGS:
        raise InvalidInput(f"a queue has no setting {name!r}; it has {', '.join(SETTINGS)}")
    if value is None:
        return None
    if name == "retry":
        policy = check_policy(value)
        return policy.encode() if policy else None
    if name == "cap":
        return check_cap(value)
    if name == "events":
        return _level(value)
    micros = check_duration(name, value)
    if name == "timeout" and micros == 0:
        raise InvalidInput("timeout is 0; give more seconds, or None for no timeout")
    return micros


def _level(value: object) -> str:
    if value not in ("off", "outcomes", "all"):
        raise InvalidInput(f"events is {value!r}; use 'off', 'outcomes' or 'all'")
    return str(value)


async def _briefs(tx: Tx) -> list[QueueBrief]:
    states = {item.name: str(item.state) for item in await queues.list_queues(tx)}
    waits = {item.queue: item.oldest for item in await counting.backlogs(tx)}
    counts: dict[str, list[Count]] = {}
    for count in await counting.count_jobs(tx):
        counts.setdefault(count.queue, []).append(count)
    return [
        QueueBrief(
            name=name,
            state=states.get(name, "active"),
            jobs={count.state: count.jobs for count in counts.get(name, ())},
            estimated=tuple(sorted(count.state for count in counts.get(name, ()) if count.estimated)),
            oldest_due=seconds_of(waits.get(name)),
        )
        for name in sorted(states.keys() | counts.keys())
    ]


async def _of_tenant(tx: Tx, tenant: str) -> list[QueueBrief]:
    states = await queries.queue_states(tx)
    found: dict[str, dict[str, int]] = {}
    for count in await tenants.counts(tx, tenant):
        found.setdefault(count.queue, {})[count.state] = count.jobs
    return [
        QueueBrief(name=name, state=states.get(name, "active"), jobs=counts, estimated=(), oldest_due=None)
        for name, counts in sorted(found.items())
    ]


async def _stats(tx: Tx, tenant: str) -> list[QueueStats]:
    # A tenant's jobs are counted by state, and those that are ready are waiting.
    return [
        QueueStats.of(one.name, state=one.state, counts={**one.jobs, "waiting": one.jobs.get("ready", 0)})
        for one in await _of_tenant(tx, tenant)
    ]
