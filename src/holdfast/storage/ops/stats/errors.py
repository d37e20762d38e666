"""Errors by kind. Each failed run is counted once: the mark moves in the commit that adds the runs after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....clock import SECOND
from ....errors import NotFound
from ....model.stats import ErrorGroup, ErrorWhole
from ....model.values import instant_of, micros_of
from ....rules.stats import fingerprint
from ...port import Row, Tx, Value
from ...statements import sql
from ..jobs.queries import clock

PAGE: Final = 200
_MARK: Final = "errors"
_LAG: Final = 5 * SECOND
"""Runs that ended more recently are left to the next check: others of the same moment may not be committed yet."""
_STEP: Final = 600 * SECOND
_CAP: Final = 5_000
_MOST_RECENT: Final = 5_000
"""Runs that are read to find the newest."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The position up to which errors are counted."""

    at: int = 0
    place: str = ""

    @property
    def last(self) -> tuple[str, int]:
        """Return the job and the epoch of the last run at that instant."""
        return tuple(json.loads(self.place)) if self.place else ("", 0)


@dataclass(frozen=True, slots=True)
class Page:
    """Runs that failed since a mark: when, job, epoch, task, error."""

    since: Mark
    rows: Sequence[Row]

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= PAGE

    @property
    def until(self) -> Mark:
        at, job_id, epoch, *_ = self.rows[-1]
        return Mark(at, json.dumps([job_id, epoch]))


async def page(tx: Tx) -> Page:
    """Return the next failed runs that are not counted yet."""
    row = await tx.one(sql.get_mark, name=_MARK)
    mark = Mark(*row) if row else Mark()
    (job_id, epoch), at, now = mark.last, mark.at, await clock(tx)
    if at > now + _STEP:  # the clock was set back since
        at = now - _STEP
    rows = await tx.all(sql.page_of_errors, at=at, job_id=job_id, epoch=epoch, lag=_LAG, n=PAGE)
    return Page(mark, rows)


def grouped(found: Page) -> list[ErrorWhole]:
    """Group the runs of a page by kind. Takes some time for long tracebacks: not for a transaction."""
    groups: dict[str, ErrorWhole] = {}
    for at, job_id, _, task, error in found.rows:
        print_ = fingerprint(task, error)
        before = groups.get(print_.key)
        seen = instant_of(at)
        first, count = (before.first_seen, before.count) if before else (seen, 0)
        groups[print_.key] = ErrorWhole(
            fingerprint=print_.key, task=task, type=print_.type, message=print_.message, last_job=job_id,
            first_seen=first, last_seen=seen, count=count + 1, traceback=print_.traceback,
        )  # fmt: skip
    return sorted(groups.values(), key=lambda group: group.fingerprint)


async def note(tx: Tx, found: Page, groups: Sequence[ErrorWhole]) -> bool:
    """Add a page to the counts; False, and nothing is changed, where another process did so first."""
    since, until = found.since, found.until
    moved = await tx.one(
        sql.move_mark, name=_MARK, at=until.at, place=until.place, from_at=since.at, from_place=since.place
    )
    if moved is None:
        return False
    for group in groups:
        await tx.one(sql.note_error, **_columns(group))
    return True


async def failures_of(tx: Tx, tenant: str, *, task: str | None, since: int | None, n: int) -> Page:
    """Return the newest failed runs of one tenant's jobs, the oldest of them first, to be grouped."""
    rows = await tx.all(sql.failures_of_tenant, tenant=tenant, task=task, since=since, n=n)
    return Page(Mark(), rows[::-1])


async def recent(tx: Tx, *, tenant: str | None, since: int, n: int) -> list[Row]:
    """Return the newest failed runs: when, job, epoch, task, error, attempt, outcome; job state, queue, tenant."""
    return await tx.all(sql.recent_failures, tenant=tenant, since=since, most=_MOST_RECENT, n=n)


async def list_errors(tx: Tx, *, task: str | None, since: int | None, n: int) -> list[ErrorGroup]:
    """List the kinds of errors, the last seen first."""
    return [ErrorGroup(**_facts(row)) for row in await tx.all(sql.list_errors, task=task, since=since, n=n)]


async def get_error(tx: Tx, fingerprint: str) -> ErrorWhole:
    row = await tx.one(sql.get_error, fingerprint=fingerprint)
    if row is None:
        raise NotFound("error", fingerprint)
    return ErrorWhole(**_facts(row), traceback=row[4])


async def prune(tx: Tx, kept: int) -> None:
    """Delete kinds that were not seen for long, and the oldest where there are too many."""
    await tx.one(sql.prune_errors, kept=kept, cap=_CAP)


def _facts(row: Row) -> dict[str, Any]:
    fingerprint, task, type_, message, _, last_job, first_seen, last_seen, count = row
    return {
        "fingerprint": fingerprint, "task": task, "type": type_, "message": message, "last_job": last_job,
        "first_seen": instant_of(first_seen), "last_seen": instant_of(last_seen), "count": count,
    }  # fmt: skip


def _columns(group: ErrorWhole) -> dict[str, Value]:
    return {
        "fingerprint": group.fingerprint,
        "task": group.task,
        "type": group.type,
        "message": group.message,
        "traceback": group.traceback,
        "last_job": group.last_job,
        "first_seen": micros_of(group.first_seen),
        "last_seen": micros_of(group.last_seen),
        "count": group.count,
    }
