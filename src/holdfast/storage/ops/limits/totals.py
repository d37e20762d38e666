"""Cluster-wide totals of concurrent jobs per queue."""

from __future__ import annotations

from ....rules.limits import Shares, before_the_first_split, split
from ...port import Tx
from ...statements import sql
from ..workers.workers import list_workers


async def set_total(tx: Tx, queue: str, total: int | None) -> None:
    """Set how many jobs of a queue may run at once in the whole cluster; None: as many as the workers have slots."""
    await tx.one(sql.set_total, name=queue, total=total)
    await share_out(tx)
    tx.notify(f"queue:{queue}")


async def totals(tx: Tx) -> dict[str, int]:
    return {row[0]: row[1] for row in await tx.all(sql.list_totals)}


async def share_out(tx: Tx) -> int:
    """Split every total over the live workers; return how many shares changed. Only those are written."""
    wanted = split(await totals(tx), await list_workers(tx))
    present: Shares = {(queue, worker): slots for queue, worker, slots in await tx.all(sql.list_shares)}
    changed = {key: slots for key, slots in wanted.items() if present.get(key) != slots}
    gone = present.keys() - wanted.keys()
    for queue, worker in sorted(changed):
        await tx.one(sql.write_share, queue=queue, worker=worker, slots=changed[queue, worker])
    for queue, worker in sorted(gone):
        await tx.one(sql.delete_share, queue=queue, worker=worker)
    for queue in {queue for queue, _ in {*changed, *gone}}:
        tx.notify(f"queue:{queue}")
    return len(changed) + len(gone)


async def shares_of(tx: Tx, worker_id: str) -> dict[str, int]:
    """Return how many jobs of each queue with a total this worker may run."""
    known = await totals(tx)
    if not known:
        return {}
    given = {queue: slots for queue, worker, slots in await tx.all(sql.list_shares) if worker == worker_id}
    workers = await list_workers(tx) if known.keys() - given.keys() else []
    return {
        queue: given[queue] if queue in given else before_the_first_split(total, queue, workers)
        for queue, total in known.items()
    }
