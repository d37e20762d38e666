"""Finds jobs by a filter, newest first, without reading those that cannot match.

The jobs fall into pools, each with its own index: queued, not due yet, running, waiting for something else,
ended, ended without success, members of a flow, ids with a common prefix. A filter determines the pools it needs.
Conditions that no index answers are checked on the rows of the pools, page by page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ....errors import InvalidCursor
from ....model.answers import LATER, JobFilter
from ....names import MAX_INSTANT, MIN_INSTANT
from ...port import Tx, Value
from ...statements import Statement, sql

# Above every id: an index can be searched with a bound that is always there, but not with one that may be null.
_LAST: Final = "\U0010ffff"
_STRETCH: Final = 1_000
_LEAST: Final = 250
"""Rows to read from a queue at least: each read has a fixed cost."""
_LOOSE: Final = ("reason", "created_after", "created_before", "finished_after", "finished_before", "older_than")
"""Conditions that the pools check, row by row, without an index."""
_INSIDE: Final = ("affinity", "tag", "text", "created_by", "priority", "min_attempts")
"""Conditions that they do not check."""
_OF_ENDS: Final = (
    "state", "states", "queue", "finished_after", "finished_before", "older_than", "order", "before", "limit",
)  # fmt: skip
"""Conditions that the index of ended jobs answers."""
_POOLS: Final[dict[str | None, Sequence[Statement]]] = {
    None: (sql.find_ready, sql.find_running, sql.find_waiting, sql.find_ended),
    "ready": (sql.find_ready,),
    "running": (sql.find_running,),
    "blocked": (sql.find_waiting,),
    "suspended": (sql.find_waiting,),
    "succeeded": (sql.find_ended,),
    "failed": (sql.find_unsuccessful,),
    "cancelled": (sql.find_unsuccessful,),
    "expired": (sql.find_unsuccessful,),
    "skipped": (sql.find_unsuccessful,),
}


@dataclass(frozen=True, slots=True)
class Found:
    """Some ids, the greatest first. `next` is where to continue; None at the end."""

    ids: list[str]
    next: str | None


async def find_ids(tx: Tx, wanted: JobFilter, *, before: str | None, n: int) -> list[str]:
    """Return the first `n` ids below `before`, the greatest first."""
    return (await search_ids(tx, wanted, before=before, n=n)).ids


async def search_ids(tx: Tx, wanted: JobFilter, *, before: str | None, n: int, most: int | None = None) -> Found:
    """Find ids, checking conditions without an index on at most `most` jobs: a short page may not be the last one."""
    if wanted.order == "ended":
        return await _search_ended(tx, wanted, before, n, most)
    nothing: dict[str, Any] = dict.fromkeys(_LOOSE)
    base = wanted if most is None else replace(wanted, **nothing)
    if base == wanted and all(getattr(wanted, name) is None for name in _INSIDE):
        ids = await _pooled(tx, wanted, before, n)
        return Found(ids, ids[-1] if len(ids) == n else None)
    found: list[str] = []
    looked = 0
    while True:
        stretch, more = await _stretch(tx, base, before)
        found += await _narrowed(tx, wanted, stretch)
        if len(found) >= n:
            return Found(found[:n], found[n - 1])
        if not more:
            return Found(found, None)
        before, looked = stretch[-1], looked + len(stretch)
        if most is not None and looked >= most:
            return Found(found, before)


async def _search_ended(tx: Tx, wanted: JobFilter, before: str | None, n: int, most: int | None) -> Found:
    """Find the jobs that ended last. `before` is an end time and an id, since many jobs end in one commit."""
    known: dict[str, Any] = {name: getattr(wanted, name) for name in _OF_ENDS}
    is_indexed = replace(JobFilter(), **known) == wanted
    size = n if is_indexed else _STRETCH
    found: list[tuple[int, str]] = []
    looked = 0
    while True:
        stretch = await _ends(tx, wanted, before, size)
        ids = [id for _, id in stretch if id.startswith(wanted.id or "")]
        fitting = set(ids if is_indexed else await _narrowed(tx, wanted, ids))
        found += [end for end in stretch if end[1] in fitting]
        if len(found) >= n:
            return Found([id for _, id in found[:n]], _place(found[n - 1]))
        if len(stretch) < size:
            return Found([id for _, id in found], None)
        before, looked = _place(stretch[-1]), looked + len(stretch)
        if most is not None and looked >= most:
            return Found([id for _, id in found], before)


async def _ends(tx: Tx, wanted: JobFilter, before: str | None, n: int) -> list[tuple[int, str]]:
    """Return end times and ids, the last end first. Several states are read one by one."""
    bound = (MAX_INSTANT if wanted.finished_before is None else wanted.finished_before - 1, _LAST)
    upto, last = bound if before is None else min(bound, _read_place(before))
    since = MIN_INSTANT if wanted.finished_after is None else wanted.finished_after
    found: list[tuple[int, str]] = []
    for state in dict.fromkeys(wanted.states or (wanted.state,)):
        rows = await tx.all(
            sql.find_by_end, state=state, queue=wanted.queue, since=since, upto=upto, before=last,
            older_than=wanted.older_than, n=n,
        )  # fmt: skip
        found += [(end, id) for end, id in rows]
    return sorted(found, reverse=True)[:n]


def _place(end: tuple[int, str]) -> str:
    return f"{end[0]}:{end[1]}"


def _read_place(before: str) -> tuple[int, str]:
    end, colon, id = before.partition(":")
    if not colon or not end.removeprefix("-").isdecimal() or not MIN_INSTANT <= int(end) <= MAX_INSTANT:
        raise InvalidCursor(f"before is {before[:64]!r}, which no list by end gave out; start without it")
    return int(end), id


async def _stretch(tx: Tx, wanted: JobFilter, before: str | None) -> tuple[list[str], bool]:
    """Return the next jobs to check, the greatest id first, and whether there are more."""
    if wanted.state == "ready" and _pools(wanted, _STRETCH) == _POOLS["ready"] and wanted.queue is None:
        return await _of_each_queue(tx, wanted, before)
    ids = await _pooled(tx, wanted, before, _STRETCH)
    return ids, len(ids) == _STRETCH


async def _of_each_queue(tx: Tx, wanted: JobFilter, before: str | None) -> tuple[list[str], bool]:
    """Return the next jobs of many queues; the pool would read a whole page of each and return one page in total.

    Below the least id of a queue that has more, the result is incomplete: those ids come with the next page.
    """
    queues = [row[0] for row in await tx.all(sql.ready_queues)]
    share = max(_LEAST, _STRETCH // max(1, len(queues)))
    found: list[str] = []
    complete_to = ""
    for queue in queues:
        ids = await _pooled(tx, replace(wanted, queue=queue), before, share)
        found += ids
        if len(ids) == share:
            complete_to = max(complete_to, ids[-1])
    return sorted((id for id in found if id >= complete_to), reverse=True), complete_to != ""


async def _pooled(tx: Tx, wanted: JobFilter, before: str | None, n: int) -> list[str]:
    """Search by the indexed columns. Several states are read one by one."""
    found: list[str] = []
    for state in dict.fromkeys(wanted.states or (wanted.state,)):
        one = replace(wanted, state=state, states=None)
        params = _params(one, before, n)
        for statement in _pools(one, n):
            found += [row[0] for row in await tx.all(statement, **params)]
    return sorted(found, reverse=True)[:n]


async def _narrowed(tx: Tx, wanted: JobFilter, ids: Sequence[str]) -> list[str]:
    """Keep those of some ids that match the whole filter; several states were checked already."""
    if not ids:
        return []
    inside: dict[str, Value] = {name: getattr(wanted, name) for name in _INSIDE}
    params = _params(wanted, None, len(ids))
    return [row[0] for row in await tx.all(sql.narrow_ids, ids=json.dumps(ids), **params, **inside)]


def _params(wanted: JobFilter, before: str | None, n: int) -> dict[str, Value]:
    bound = _LAST if before is None else before
    if wanted.id is not None:
        bound = min(bound, wanted.id + _LAST)
    return {
        "state": wanted.state, "label": wanted.label, "queue": wanted.queue, "task": wanted.task,
        "tenant": wanted.tenant, "reason": wanted.reason, "flow": wanted.flow, "worker": wanted.worker,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before, "finished_after": wanted.finished_after,
        "finished_before": wanted.finished_before, "older_than": wanted.older_than, "before": bound, "n": n,
        "prefix": wanted.id,
    }  # fmt: skip


def _pools(wanted: JobFilter, n: int) -> Sequence[Statement]:
    if wanted.id is not None:
        return (sql.find_by_id,)
    if wanted.flow is not None:
        return (sql.find_of_flow,)
    if wanted.worker is not None:
        return (sql.find_running,)
    if wanted.label in LATER:
        return (sql.find_later,)
    # A page of succeeded jobs would be read from every task of every queue; since most jobs have succeeded,
    # reading all of them in order reads less.
    is_most = wanted.state is None or (wanted.state == "succeeded" and n >= _STRETCH)
    if is_most and wanted.queue is None and wanted.task is None:
        return (sql.find_of_tenant if wanted.tenant else sql.find_any,)
    return _POOLS[wanted.state]
