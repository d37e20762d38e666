"""Tasks for real worker processes that may tell webhooks on loopback of them."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast.outbound.policy import Policy

app = holdfast.App()
app.outbound = Policy(allow_http=True, allow_private=["127.0.0.0/8"], ports=range(1_024, 65_536))


@app.task(max_attempts=None)
async def work(n: int) -> int:
    await asyncio.sleep(0.05)
    if n % 7 == 0:
        raise holdfast.Fail("every seventh")
    return n
