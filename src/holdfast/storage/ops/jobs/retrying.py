"""Start a new generation of jobs that have ended."""

from __future__ import annotations

from collections.abc import Mapping

from ....rules.lifecycle import MAX_GENERATION
from ...port import Params, Tx
from ...statements import sql


async def revive(tx: Tx, held: Mapping[str, str | None]) -> set[str]:
    """Start a new generation of locked jobs that have ended, each with the dedupe key it has to hold; return their ids.

    A job stays as it is where another live job holds its key, or where it has been retried too often.
    """
    keyless: list[Params] = [{"id": id, "held": None} for id, key in held.items() if key is None]
    # One by one: of two jobs with the same key, the first holds it.
    batches = [keyless] + [[{"id": id, "held": key}] for id, key in held.items() if key is not None]
    revived: list[str] = []
    for batch in filter(None, batches):
        rows = await tx.each(sql.revive_each, batch, max_generation=MAX_GENERATION)
        revived += [str(job["id"]) for job, row in zip(batch, rows, strict=True) if row]
    if revived:
        await tx.each(sql.retry_each, [{"id": id} for id in revived])
    return set(revived)
