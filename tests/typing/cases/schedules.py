"""`@app.cron` and `@app.every`: a function becomes its own kind of task, a task stays what it is."""

from __future__ import annotations

from typing import assert_type

import holdfast

app = holdfast.App(":memory:")


@app.cron("0 3 * * *", zone="Europe/Paris", missed="all", max_missed=10)
def nightly() -> int:
    return 1


@app.every(60, overlap="skip", jitter=5)
async def beat(ctx: holdfast.Context, region: str = "eu") -> str:
    return region


@app.cron("0 4 * * *", args=[1], name="stacked")
@app.task(queue="reports")
async def report(user: int) -> None: ...


assert_type(nightly.enqueue().result(), int)
assert_type(beat.enqueue("us").result(), str)
assert_type(report.enqueue(1).result(), None)
report.enqueue("one")  # error: arg-type / reportArgumentType
app.every(60, overlap="hope")  # error: arg-type / reportArgumentType
assert_type(app.schedule(report.job(1), cron="0 3 * * *", name="report-1", zone="Asia/Tokyo"), str)
app.schedule(report.job(1), every="day")  # error: arg-type / reportArgumentType
