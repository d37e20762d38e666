"""A task that runs in a process of its own, and says for whom."""

from __future__ import annotations

from holdfast import App
from holdfast.tenancy import Tenants

app = App(":memory:", tenant=lambda: "from the app")


@app.task(isolate="process")
def whose() -> str:
    return Tenants().of()


@app.task(isolate="process")
async def awhose() -> str:
    return Tenants().of()
