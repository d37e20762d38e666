"""Tasks that run in a process of their own, and say for whom, and who enqueues there."""

from __future__ import annotations

from holdfast import App
from holdfast.tasks.tenants import Tenants, creator

app = App(":memory:", tenant=lambda: "from the app")


@app.task(isolate="process")
def whose() -> str:
    return Tenants().of()


@app.task(isolate="process")
async def awhose() -> str:
    return Tenants().of()


@app.task(isolate="process")
def creates_as() -> str:
    return creator()
