"""From the event log to deliveries: each event once for each endpoint that subscribes to it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....clock import SECOND
from ....errors import Corruption
from ....ids import ids
from ....model.events import Chunk, Event, events_of
from ....model.jobs import JobSpec
from ....model.values import is_reference, reference_of
from ....model.webhooks import TASK, Endpoint, endpoint_of
from ....rules.webhooks import Audience, Told, called_by, is_end_of_run, message, result_limit, wanted_by
from ...port import Tx
from ...statements import sql
from .. import events
from .webhooks import delivery_job, send

ROWS: Final = 100
"""Rows of the log processed in one transaction; a row may hold events of a thousand jobs."""
_EVENTS: Final = 1_000
"""No further row is read after this many events."""
_LONGEST_COMMIT: Final = 3_600 * SECOND
"""Events of transactions that began this long ago have certainly been processed, if a later row has."""
_Pair = tuple[Endpoint, Event]


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of one step."""

    made: int = 0
    """Deliveries."""
    rows: int = 0
    more: bool = False
    """True if the log may have further rows."""
    waits: bool = False
    """True if rows have been committed that are not in the log yet."""
    unreadable: tuple[int, ...] = ()
    """Rows of the log that were skipped."""
    missed: int = 0
    """Rows that were pruned before they were read."""


async def is_behind(tx: Tx) -> bool:
    """Return whether there are events to deliver or to skip; cheap where webhooks were never used."""
    mark = await tx.one(sql.webhook_mark)
    return mark is not None and (mark[0] < await events.newest(tx) or await events.waits(tx))


async def fan_out(tx: Tx, rows: int = ROWS) -> Passed:
    """Make the deliveries for the next rows of the log, and move the mark past them, in one commit."""
    held = await tx.one(sql.hold_webhook_mark)
    if held is None:
        return Passed()
    mark: int = held[0]
    # In this order: an endpoint that was created before an event is seen with it.
    newest, page = await events.newest(tx), await events.read(tx, mark, rows)
    if await tx.one(sql.any_webhook) is None:
        await tx.one(sql.move_webhook_mark, seq=newest)
        return Passed(waits=page.waits)
    if not page.chunks:
        return Passed(waits=page.waits)
    logged, unreadable, last = _events(page.chunks)
    made = await _make(tx, await _pairs(tx, logged))
    await send(tx, made)
    await tx.one(sql.move_webhook_mark, seq=last)
    await tx.one(sql.forget_callbacks, upto=page.chunks[0].at - _LONGEST_COMMIT)
    more = len(page.chunks) >= rows or last < page.chunks[-1].seq
    return Passed(len(made), last - mark, more, page.waits, unreadable, max(0, page.pruned_to - mark))


def _events(chunks: Sequence[Chunk]) -> tuple[list[tuple[int, Event]], tuple[int, ...], int]:
    """Return the events with their rows' numbers; the rows that cannot be read; and the last row of all these."""
    found: list[tuple[int, Event]] = []
    unreadable: list[int] = []
    last = 0
    for chunk in chunks:
        if len(found) >= _EVENTS:
            break
        last = chunk.seq
        try:
            found += [(chunk.seq, event) for _, event in events_of(chunk)]
        except Corruption:
            # It will never be readable; the rows after it are.
            unreadable.append(chunk.seq)
    return found, tuple(unreadable), last


async def _pairs(tx: Tx, logged: Sequence[tuple[int, Event]]) -> list[_Pair]:
    # Events of deliveries themselves, which may be half of the log, are never delivered.
    relevant = [(seq, event) for seq, event in logged if event.task != TASK]
    if not relevant:
        return []
    tenants = json.dumps(sorted({"", *(event.tenant for _, event in relevant)}))
    words = json.dumps(wanted_by(event.kind for _, event in relevant))
    rows = await tx.all(sql.hearing_webhooks, tenants=tenants, words=words)
    if called := called_by(event for _, event in relevant):
        rows += await tx.all(sql.called_webhooks, ids=json.dumps(called))
    audience, after = Audience(endpoint_of(row) for row in rows), {row[0]: row[9] for row in rows}
    return [(endpoint, event) for seq, event in relevant for endpoint in audience.of(event) if seq > after[endpoint.id]]


async def _make(tx: Tx, pairs: Sequence[_Pair]) -> list[tuple[JobSpec, dict[str, str | None]]]:
    data = await _data(tx, [event for _, event in pairs])
    urls = await _callbacks(tx, {event.job for endpoint, event in pairs if endpoint.called and event.job is not None})
    made: list[tuple[JobSpec, dict[str, str | None]]] = []
    for endpoint, event in pairs:
        if endpoint.called and event.job not in urls:
            continue
        message_id = f"msg_{ids.new()}"
        body = message(message_id, event, data.get(event.job or ""))
        spec = delivery_job(endpoint, message_id, body, urls[event.job or ""] if endpoint.called else None)
        about = {"endpoint": endpoint.id, "message": message_id, "kind": event.kind, "job": event.job}
        made.append((spec, about))
    return made


async def _callbacks(tx: Tx, jobs: set[str]) -> dict[str, str]:
    return dict(await tx.all(sql.callbacks_of, ids=json.dumps(sorted(jobs)))) if jobs else {}


async def _data(tx: Tx, events: Sequence[Event]) -> dict[str, Told]:
    """Return the data about the jobs of these events; each event becomes a message."""
    jobs = {event.job for event in events if event.job is not None}
    if not jobs:
        return {}
    wanted = json.dumps(sorted(jobs))
    artifacts: defaultdict[str, list[Any]] = defaultdict(list)
    for job_id, *facts in await tx.all(sql.told_artifacts, ids=wanted):
        artifacts[job_id].append(tuple(facts))
    errors = await _errors(tx, events)
    rows = await tx.all(sql.told_jobs, ids=wanted, most=result_limit(len(events)))
    return {
        id: Told(id, state, reason, error, *_result(result, size), tuple(artifacts[id]), errors[id])
        for id, state, reason, error, result, size in rows
    }


async def _errors(tx: Tx, events: Sequence[Event]) -> defaultdict[str, dict[int, str | None]]:
    """Return the errors of the runs that these events ended, by job and epoch."""
    found: defaultdict[str, dict[int, str | None]] = defaultdict(dict)
    runs = {(event.job, event.epoch) for event in events if event.job is not None and is_end_of_run(event)}
    if runs:
        for job_id, epoch, error in await tx.all(sql.told_errors, runs=json.dumps(sorted(runs))):
            found[job_id][epoch] = error
    return found


def _result(column: str | None, size: int | None) -> tuple[str | None, int | None]:
    """Return a result to send along, and its size. One that is kept in a blob is too large to send."""
    return (None, reference_of(column).size) if column is not None and is_reference(column) else (column, size)
