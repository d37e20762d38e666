"""The tasks of every shop."""

from __future__ import annotations

import os

import holdfast

app = holdfast.App(os.environ["HOLDFAST_STORE"])


@app.task
def receipt(order: int) -> str:
    return f"receipt for order {order}"
