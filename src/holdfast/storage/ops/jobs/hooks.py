"""Jobs that are enqueued when another ends: the hooks of its task, in the transaction that records the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ....errors import QueueClosed
from ....ids import ids
from ....model.jobs import Hook, JobSpec, last_error
from ....rules.schedules import passed_on
from ...port import Row, Tx
from ...statements import sql
from . import values
from .enqueue import enqueue, store_in_any_queue

_ENDS: Final = {"succeeded": "success", "failed": "failure", "expired": "failure"}
_decode: Final = msgspec.json.Decoder(list[Hook]).decode


async def run(tx: Tx, ended: Mapping[str, str]) -> None:
    """Enqueue the hooks of these jobs, by the states in which they ended."""
    for row in await tx.all(sql.hooks_of, ids=json.dumps(sorted(ended))):
        state = ended[row[0]]
        for hook in _decode(row[1]):
            if hook.on in ("end", _ENDS.get(state)):
                await _enqueue(tx, await _job(tx, hook, state, row))


async def _enqueue(tx: Tx, spec: JobSpec) -> None:
    try:
        await enqueue(tx, [spec])
    except QueueClosed:
        # The end must be recorded whatever the state of the hook's queue, and the hook must not be lost.
        await store_in_any_queue(tx, spec)


async def _job(tx: Tx, hook: Hook, state: str, row: Row) -> JobSpec:
    job_id, _, now, reason, result, error, tenant, trace = row
    # The job may be running again: its stored values are then no longer of that end.
    facts: dict[str, Any] = {"state": state, "reason": None, "result": None, "error": None}
    if now == state:
        known = await values.load_any(tx, result) if "result" in hook.wants else None
        facts |= {"reason": reason, "result": _raw(known), "error": _raw(last_error(state, reason, error))}
    payload = {hook.takes: job_id, **{name: facts[name] for name in hook.wants}}
    return msgspec.structs.replace(
        hook.spec, id=ids.new(), payload=msgspec.json.encode(payload).decode(), tenant=tenant, trace=passed_on(trace)
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
