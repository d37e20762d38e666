"""Queues: how they stand, what is set for them, and what nobody can run."""

from __future__ import annotations

from typing import Any

import msgspec

from ..client.queues import QueueView
from ..model.queues import QueueSettings as SettingsRecord
from ..model.queues import QueueState
from ..model.stats import LABELS
from ..model.stats import QueueStats as StatsRecord
from ..model.values import decoded, seconds_of
from .bulk import Changed


class QueueBrief(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a list: how many of its jobs are where, and for how many seconds the oldest due one has waited."""

    name: str
    state: str
    jobs: dict[str, int]
    estimated: list[str]
    oldest_due: float | None


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a queue. Durations are seconds; null is the default."""

    name: str
    state: QueueState
    retry: Any
    timeout: float | None
    keep_succeeded: float | None
    keep_failed: float | None
    keep_cancelled: float | None
    keep_expired: float | None
    keep_skipped: float | None
    keep_result: float | None
    cap: int | None
    events: str


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at this moment. Labels in `estimated` have a count that is not exact."""

    name: str
    state: str
    counts: dict[str, int]
    estimated: list[str]
    oldest_due_age: float | None
    running: int
    slots: int
    workers: int
    utilisation: float | None
    paused: bool
    cooling: float
    capacity: int | None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue whole. The settings are null for a caller who sees one tenant's part alone."""

    name: str
    state: str
    settings: QueueSettings | None
    stats: QueueStats


class QueueMoved(Changed, frozen=True, kw_only=True):
    """A queue after it was opened or closed."""

    name: str
    state: QueueState


class QueueSet(Changed, frozen=True, kw_only=True):
    """A queue after its settings were changed."""

    settings: QueueSettings


def of_queue_brief(queue: QueueView | StatsRecord) -> QueueBrief:
    return QueueBrief(
        name=queue.name,
        state=queue.state,
        jobs=dict(queue.counts),
        estimated=sorted(queue.estimated),
        oldest_due=queue.oldest_due if isinstance(queue, QueueView) else queue.oldest_due_age,
    )


def of_queue_settings(settings: SettingsRecord) -> QueueSettings:
    return QueueSettings(
        name=settings.name,
        state=settings.state,
        retry=decoded(settings.retry),
        timeout=seconds_of(settings.timeout),
        keep_succeeded=seconds_of(settings.keep_succeeded),
        keep_failed=seconds_of(settings.keep_failed),
        keep_cancelled=seconds_of(settings.keep_cancelled),
        keep_expired=seconds_of(settings.keep_expired),
        keep_skipped=seconds_of(settings.keep_skipped),
        keep_result=seconds_of(settings.keep_result),
        cap=settings.cap,
        events=settings.events or "outcomes",
    )


def of_queue_stats(queue: StatsRecord) -> QueueStats:
    return QueueStats(
        name=queue.name,
        state=queue.state,
        # A tenant's jobs are counted by state, and those that are ready are waiting.
        counts={label: queue.count(label) + (queue.count("ready") if label == "waiting" else 0) for label in LABELS},
        estimated=sorted(queue.estimated),
        oldest_due_age=queue.oldest_due_age,
        running=queue.running,
        slots=queue.slots,
        workers=queue.workers,
        utilisation=queue.utilisation,
        paused=queue.is_paused,
        cooling=queue.cooling,
        capacity=queue.capacity,
    )


def of_queue(stats: StatsRecord, settings: SettingsRecord | None) -> Queue:
    return Queue(
        name=stats.name,
        state=stats.state if settings is None else str(settings.state),
        settings=None if settings is None else of_queue_settings(settings),
        stats=of_queue_stats(stats),
    )
