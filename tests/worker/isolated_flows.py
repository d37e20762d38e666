"""Members of flows that a child process can import."""

from __future__ import annotations

from holdfast import App, SyncContext

app = App(":memory:")


@app.task
def begin() -> list[int]:
    return [1, 2]


@app.task(isolate="process")
def grow(ctx: SyncContext, numbers: list[int]) -> int:
    with ctx.flow() as flow:
        flow.add(add.job(sum(numbers), 9), name="last", after=flow.me)
    return sum(numbers)


@app.task
def add(a: int, b: int) -> int:
    return a + b
