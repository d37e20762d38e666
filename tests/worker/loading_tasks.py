"""Tasks that load something, for child processes to import."""

from __future__ import annotations

from holdfast import App, SyncContext

app = App(":memory:")


@app.task(isolate="process")
def load(ctx: SyncContext, model: str) -> None:
    ctx.loaded(model)
