"""Blobs as the database knows them: being written, part of an artifact, or to be removed.

A blob's row is committed before its first byte is written and deleted after its last one is gone. One that is being
written can become part of an artifact only while its job runs under the epoch that began it. After that no run can
use it any more, and it is safe to remove.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from ....clock import SECOND
from ....errors import LeaseLost, StorageError
from ...port import Tx
from ...statements import sql

PAGE: Final = 100
"""Blobs processed in one step."""
_PARTS: Final = 32
"""Parts that one transaction deletes at most."""
_ABANDONED: Final = 60 * SECOND


async def begin(tx: Tx, owner: str, job_id: str, epoch: int, blob: str) -> None:
    """Insert the row of a blob. One statement; LeaseLost unless this run owns the job."""
    if await tx.one(sql.begin_blob, id=blob, owner=owner, job_id=job_id, epoch=epoch) is None:
        raise LeaseLost(f"job {job_id} is no longer this run's; nothing was stored")


async def add_part(tx: Tx, blob: str, part: int, data: bytes) -> None:
    """Write a part. One statement."""
    if await tx.one(sql.add_part, blob=blob, part=part, data=data) is None:
        raise StorageError(f"blob {blob} was removed while it was written; store the artifact again")


async def read_part(tx: Tx, blob: str, part: int) -> bytes | None:
    row = await tx.one(sql.blob_part, blob=blob, part=part)
    return bytes(row[0]) if row else None


async def doom(tx: Tx, blobs: Collection[str]) -> None:
    """Mark blobs for removal that no artifact uses."""
    for blob in blobs:
        await tx.one(sql.doom_blob, id=blob)


async def abandoned(tx: Tx) -> list[str]:
    """Return blobs whose writers are gone for good."""
    return [id for (id,) in await tx.all(sql.abandoned_blobs, age=_ABANDONED, n=PAGE)]


async def doomed(tx: Tx) -> list[str]:
    """Return blobs to be removed, the oldest first."""
    return [id for (id,) in await tx.all(sql.doomed_blobs, n=PAGE)]


async def known(tx: Tx, blobs: Collection[str]) -> set[str]:
    """Return those of these that have a row."""
    return {id for (id,) in await tx.all(sql.known_blobs, ids=json.dumps(list(blobs)))}


async def drop_parts(tx: Tx, blob: str) -> bool:
    """Delete some parts of a blob; return whether there may be more."""
    return len(await tx.all(sql.drop_parts, blob=blob, n=_PARTS)) == _PARTS


async def drop(tx: Tx, blobs: Collection[str]) -> None:
    """Delete the rows of blobs whose bytes are gone."""
    for blob in blobs:
        await tx.one(sql.drop_blob, id=blob)
