"""Settings of a queue. They are a row: every worker and every caller sees them, and it outlives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from ...errors import Corruption
from ...model.queues import QueueRecord, QueueState
from ..port import Row, Tx, Value
from ..statements import sql
from .audit import audit
from .events import log_or_ignore_new_jobs


async def change_queue(
    tx: Tx, name: str, changes: Mapping[str, Value], *, action: str, actor: str, reason: str = ""
) -> QueueRecord:
    """Change some settings of a queue, and audit it. Other settings stay."""
    row = await tx.one(sql.lock_queue, name=name)
    assert row is not None
    before = _settings(row)
    after = replace(before, **changes)  # type: ignore[arg-type]
    # Plain text: a driver may write a member of an enum by its name.
    await tx.one(sql.write_queue, **{**asdict(after), "state": str(after.state)})
    changed = [field for field in changes if getattr(before, field) != getattr(after, field)]
    await audit(
        tx,
        actor=actor,
        action=action,
        target=name,
        reason=reason,
        before={field: getattr(before, field) for field in changed},
        after={field: getattr(after, field) for field in changed},
    )
    if "events" in changes:
        await log_or_ignore_new_jobs(tx)
    # Its workers poll again: they may claim now, or its jobs have other defaults.
    tx.notify(f"queue:{name}")
    return after


async def get_queue(tx: Tx, name: str) -> QueueRecord:
    """Return a queue's settings; the defaults where none were set."""
    row = await tx.one(sql.get_queue, name=name)
    return _settings(row) if row else QueueRecord(name)


async def tasks_of(tx: Tx, queue: str) -> list[str]:
    """Return the tasks of a queue's jobs, ended ones included, in order."""
    return [row[0] for row in await tx.all(sql.tasks_of_queue, queue=queue)]


async def notify(tx: Tx, queue: str) -> None:
    """Wake the workers that wait for jobs of a queue."""
    tx.notify(f"queue:{queue}")


async def list_queues(tx: Tx) -> list[QueueRecord]:
    """List every queue that was ever given a setting."""
    return [_settings(row) for row in await tx.all(sql.list_queues)]


def _settings(row: Row) -> QueueRecord:
    name, state, *rest = row
    try:
        return QueueRecord(name, QueueState(state), *rest)
    except ValueError as wrong:
        raise Corruption(f"queue {name!r} has a state that this version does not know: {state!r}") from wrong
