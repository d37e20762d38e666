"""The end of a flow: its outcome, and the job that is enqueued because of it, in the commit of its last member."""

from __future__ import annotations

from typing import Final

import msgspec

from ....errors import DuplicateJob, QueueClosed
from ....ids import ids
from ....model.jobs import JobSpec
from ...port import Tx
from ...statements import sql
from ..jobs.enqueue import enqueue

_PAGE: Final = 20


async def end_if_over(tx: Tx, flow_id: str) -> None:
    """End a flow whose last member has ended. Its outcome follows from its members."""
    row = await tx.one(sql.end_flow, id=flow_id)
    if row is None:
        return
    tx.notify("finished")
    outcome, on_success, on_failure = row
    # No callback for a cancelled flow.
    name = {"succeeded": "on_success", "failed": "on_failure"}.get(outcome)
    text = on_success if name == "on_success" else on_failure
    if name and text and not await _enqueue(tx, text):
        await tx.one(sql.owe_callback, id=flow_id, callback=name)


async def pay_callbacks(tx: Tx) -> int:
    """Enqueue the callbacks whose queue accepted no jobs when their flow ended; return how many."""
    paid = 0
    for flow_id, name, on_success, on_failure in await tx.all(sql.owed_callbacks, n=_PAGE):
        text = on_success if name == "on_success" else on_failure
        if await tx.one(sql.settle_callback, id=flow_id) is None:
            continue
        if await _enqueue(tx, text):
            paid += 1
        else:
            await tx.one(sql.owe_callback, id=flow_id, callback=name)
    return paid


def encode_callback(spec: JobSpec | None) -> str | None:
    return None if spec is None else msgspec.json.encode(spec).decode()


async def _enqueue(tx: Tx, text: str) -> bool:
    """Enqueue a callback; False where the queue accepts no jobs. That must not fail the outcome of the last member."""
    spec = msgspec.json.decode(text, type=JobSpec)
    if await tx.one(sql.job_identity, id=spec.id):
        # The flow was retried, and has ended again.
        spec = msgspec.structs.replace(spec, id=ids.new())
    try:
        await enqueue(tx, [spec])
    except QueueClosed:
        return False
    except DuplicateJob:
        return True
    return True
