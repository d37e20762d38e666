"""What a worker that rests checks: whether there is work, and when something is due."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from ....clock import SECOND
from ...port import Tx
from ...statements import sql


@dataclass(frozen=True, slots=True)
class RestCheck:
    """`due_in` is in seconds, 0 or less if something is overdue, and None if nothing becomes due by time alone."""

    due_in: float | None
    has_work: bool
    """Whether a job runs, is ready in one of the worker's queues, or waits for something that workers check."""


async def check_rest(tx: Tx, queues: Collection[str]) -> RestCheck:
    """Check whether a worker of these queues may rest. One statement."""
    row = await tx.one(sql.look_at_rest, queues=json.dumps(sorted(queues)))
    assert row is not None
    return RestCheck(None if row[0] is None else row[0] / SECOND, bool(row[1]))
