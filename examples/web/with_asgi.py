"""A bare ASGI application that knows nothing of the lifespan protocol. `uvicorn examples.web.with_asgi:web`."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.contrib.asgi import WithHoldfast

jobs = holdfast.App("shop.db")


@jobs.task
def pack(item: str) -> str:
    return f"{item} is packed"


async def application(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    job = await pack.aenqueue(scope["query_string"].decode())
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": job.id.encode()})


web = WithHoldfast(application, jobs, migrate=True, worker=True)
