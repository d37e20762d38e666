"""A small program to deploy: the Dockerfile and compose.yaml of this repository run its workers and its dashboard."""

from __future__ import annotations

import holdfast

app = holdfast.App("orders.db")  # HOLDFAST_STORE overrides it


@app.task(max_attempts=5, timeout=30)
def confirm(order: int) -> str:
    return f"order {order} confirmed"


@app.every(60)
def confirm_one() -> None:
    confirm.enqueue(1)
