"""Finds jobs by what they are, newest first, without a look at those that cannot be meant.

The jobs fall into pools, each with an index of its own: queued, running, waiting for something else, ended, and ended
without success. A filter says which pools it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...model.answers import JobFilter
from ..port import Tx, Value
from ..statements import Statement, sql

# Above every id: a bound that is always there can be looked up in an index, one that may be null cannot.
_LAST: Final = "\U0010ffff"
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


async def find_ids(tx: Tx, wanted: JobFilter, *, before: str | None, n: int) -> list[str]:
    """The first `n` ids below `before`, the greatest first."""
    params: dict[str, Value] = {
        "state": wanted.state, "queue": wanted.queue, "task": wanted.task, "tenant": wanted.tenant,
        "reason": wanted.reason, "created_after": wanted.created_after, "created_before": wanted.created_before,
        "finished_after": wanted.finished_after, "finished_before": wanted.finished_before,
        "older_than": wanted.older_than, "before": _LAST if before is None else before, "n": n,
    }  # fmt: skip
    found: list[str] = []
    for statement in _pools(wanted):
        found += [row[0] for row in await tx.all(statement, **params)]
    return sorted(found, reverse=True)[:n]


def _pools(wanted: JobFilter) -> Sequence[Statement]:
    if wanted.state is None and wanted.queue is None and wanted.task is None:
        return (sql.find_of_tenant if wanted.tenant else sql.find_any,)
    return _POOLS[wanted.state]
