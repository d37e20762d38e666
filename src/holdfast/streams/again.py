"""Supersede the earlier frames of a durable step that runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.ops import streams
from ..storage.port import Op
from .calls import outlet_of

if TYPE_CHECKING:
    from ..durable.calls import Durable


async def begin_again(durable: Durable, step: str) -> None:
    """Begin a step that may have run before. Most jobs have no stream: they check once per run."""
    info, stop = durable.info, durable.stop
    if stop.outlet is None:
        if durable.is_inline or durable.says_nothing:
            return
        durable.says_nothing = not await durable.io.read(Op(lambda tx: streams.has_stream(tx, info.id), single=True))
        if durable.says_nothing:
            return
    outlet_of(info, durable.app, stop).restart(step)
