"""Tell those who wait for a job that it has ended: members of its flow, suspended jobs, the flow itself."""

from __future__ import annotations

from collections.abc import Sequence

from ..port import Tx


async def resolve(tx: Tx, ids: Sequence[str]) -> None:
    """Resolve the edges of those of these jobs that have ended, in their own transaction."""
