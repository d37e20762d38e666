"""The meaning of a search: the part that the store's indexes answer, and the part checked job by job."""

from __future__ import annotations

import json
from typing import Final

from ...model.answers import JobFilter
from ...model.jobs import JobRecord, JobState
from ...model.values import decoded
from ...rules.stats import fingerprint
from ...rules.webhooks import own_tags
from .query import Search
from .values import Bound, instant

_LOOKED_INTO: Final = 64 * 1024
"""The number of characters of arguments, result and error that are searched for a text."""


def filter_of(search: Search, now: int) -> JobFilter:
    """Return the part of a search that the store answers."""
    return JobFilter(
        state=search.state,
        label=search.label,
        queue=search.queue,
        task=search.task,
        tenant=search.tenant,
        reason=search.reason,
        flow=search.flow,
        worker=search.worker,
        affinity=search.affinity,
        created_by=search.created_by,
        tag=search.tags[0] if search.tags else None,
        priority=search.priority.value if search.priority and search.priority.side == "" else None,
        min_attempts=_least(search.attempts),
        created_after=None if search.since is None else instant(search.since, now),
        created_before=None if search.until is None else instant(search.until, now),
        finished_after=None if search.ended_since is None else instant(search.ended_since, now),
        finished_before=None if search.ended_until is None else instant(search.ended_until, now),
        order="created" if search.ended_since is None and search.ended_until is None else "ended",
    )


def is_exact(search: Search) -> bool:
    """Return True if the store alone answers it, so that no job must be checked here."""
    return not (
        search.words
        or len(search.tags) > 1
        or search.error is not None
        or search.took is not None
        or (search.priority is not None and search.priority.side != "")
        or (search.attempts is not None and _least(search.attempts) is None)
    )


def matches(job: JobRecord, search: Search, now: int, *, payload: bool) -> bool:
    """Return True if a job from the store matches. Without `payload` its arguments and result are not searched."""
    return (
        (search.attempts is None or search.attempts.holds(job.attempts))
        and (search.priority is None or search.priority.holds(job.priority))
        and (search.took is None or search.took.holds(took(job, now)))
        and (not search.tags or set(search.tags) <= set(tags_of(job)))
        and (search.error is None or search.error == fingerprint_of(job))
        and (not search.words or _says(job, search.words, payload=payload))
    )


def _least(bound: Bound | None) -> int | None:
    """Return the lowest number within a bound, if that describes it completely."""
    if bound is None or bound.side not in (">", ">="):
        return None
    return bound.value + (bound.side == ">")


def took(job: JobRecord, now: int) -> int | None:
    """Return its current or last run time; None if it has not started, or waits."""
    if job.state is JobState.RUNNING and job.claimed_at is not None:
        return max(0, now - job.claimed_at)
    if job.started_at is None or job.finished_at is None:
        return None
    return max(0, job.finished_at - max(job.started_at, job.claimed_at or 0))


def tags_of(job: JobRecord) -> list[str]:
    """Return a job's tags."""
    found = decoded(job.tags)
    return own_tags([str(tag) for tag in found]) if isinstance(found, list) else []


def fingerprint_of(job: JobRecord) -> str | None:
    """Return the fingerprint of its last error."""
    error = job.error
    return None if error is None else fingerprint(job.task, error).key


def _says(job: JobRecord, words: tuple[str, ...], *, payload: bool) -> bool:
    error = decoded(job.error)
    parts = [job.id, job.task, job.queue, job.tenant, job.reason or "", job.created_by or "", *tags_of(job)]
    parts.append(error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)[:_LOOKED_INTO])
    if payload:
        parts += [job.payload[:_LOOKED_INTO], (job.result or "")[:_LOOKED_INTO]]
    said = "\n".join(parts).casefold()
    return all(word.casefold() in said for word in words)
