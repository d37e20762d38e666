"""Jobs that wait, owned by nobody: put to rest with what they wait for, and let go on when it is there."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.wait import Wait
from ..port import Tx


async def suspend(tx: Tx, waits: Mapping[str, Wait]) -> None:
    """Note what these jobs, suspended in this transaction, wait for; those whose wait is over already go on at once."""
