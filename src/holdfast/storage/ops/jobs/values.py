"""Large values of jobs: arguments, results, step values and signals that are kept in blobs instead of their rows.

A value is written in the transaction of the row that refers to it. On Postgres its parts are rows of that transaction;
beside a SQLite file it is a file that is on the disk before the commit. So no row is without its bytes, and a file
whose transaction was rolled back has no row and is removed in time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Literal, TypeAlias

from ....errors import Corruption
from ....model.artifacts import PART
from ....model.values import is_large, is_reference, refer, reference_of
from ...port import Tx
from ...statements import sql
from ..artifacts import blobs

Kind: TypeAlias = Literal["payload", "result", "step", "signal"]


def column_of(text: str) -> str:
    """Return the value to store in the row: the value itself, or a reference to it, which `keep` must follow."""
    return refer(text).column if is_large(text) else text


async def keep(tx: Tx, job_id: str, kind: Kind, key: str, column: str, text: str) -> None:
    """Store the bytes that a column of this transaction refers to; does nothing where it holds the value itself.

    They replace what was kept for that job under this kind and key.
    """
    if column is text:
        return
    blob = reference_of(column).blob
    await tx.one(sql.open_blob, id=blob, job_id=job_id)
    data = text.encode()
    if tx.files is not None:
        tx.files.put(blob, data)
    else:
        for n, start in enumerate(range(0, len(data), PART)):
            await blobs.add_part(tx, blob, n, data[start : start + PART])
    await tx.one(sql.drop_value, job_id=job_id, kind=kind, key=key)
    await tx.one(sql.add_value, job_id=job_id, kind=kind, key=key, blob=blob)


async def load(tx: Tx, column: str) -> str:
    """Return the value of a column, read from its blob where it is kept in one."""
    if not is_reference(column):
        return column
    reference = reference_of(column)
    data = None if tx.files is None else tx.files.get(reference.blob)
    if data is None:
        data = b"".join([bytes(part) for (part,) in await tx.all(sql.blob_parts, blob=reference.blob)])
    if len(data) != reference.size or hashlib.sha256(data).hexdigest() != reference.sha256:
        raise Corruption(
            f"{reference.size:,} bytes of a large value are missing or damaged (blob {reference.blob}); if its job was"
            " not deleted this moment, restore them from a backup"
        )
    return data.decode()


async def load_any(tx: Tx, column: str | None) -> str | None:
    """Return the value of a column that may be null."""
    return None if column is None else await load(tx, column)


async def drop(tx: Tx, ids: Collection[str], kind: Kind) -> None:
    """Delete the values of one kind of jobs that stay. A deleted job's values go with it."""
    if ids:
        await tx.one(sql.drop_values, ids=json.dumps(list(ids)), kind=kind)
