"""What the tests of streams share."""

from __future__ import annotations

from typing import Any

from holdfast import Job
from holdfast.model.streams import Frame

from .worker_kit import Shop


async def follow(shop: Shop, job: Job[Any], **how: Any) -> list[Frame]:
    return [frame async for frame in shop.app.astream(job, **how)]


def said(frames: list[Frame]) -> list[Any]:
    return [frame.data for frame in frames]
