"""A job's result has the type that its function returns, whatever way it was enqueued."""

from typing import Any, assert_type

import holdfast

app = holdfast.App(":memory:")


@app.task
async def welcome(user_id: int) -> str:
    return f"welcome {user_id}"


@app.task(queue="slow")
async def report(ctx: holdfast.Context, month: str) -> dict[str, int]:
    job = await ctx.enqueue(welcome.job(1))
    assert_type(job, holdfast.Job[str])
    assert_type(ctx.attempt, int)
    assert_type(ctx.fence, str)
    return {}


@app.task
def resize(path: str) -> bytes:
    return b""


@app.task
def train(ctx: holdfast.SyncContext, epochs: int) -> float | None:
    assert_type(ctx.enqueue(welcome.job(1)), holdfast.Job[str])
    ctx.enqueue(welcome(1))  # error: arg-type / reportArgumentType
    return None


job = welcome.enqueue(42)
assert_type(job, holdfast.Job[str])
assert_type(job.result(), str)
assert_type(job.result(timeout=1), str)
assert_type(job.created, bool)
assert_type(job.state, holdfast.model.JobState)
assert_type(job.status(), holdfast.model.JobRecord)
assert_type(job.cancel(), holdfast.model.ActionResult)

assert_type(report.enqueue("may").result(), dict[str, int])
assert_type(resize.enqueue("a").result(), bytes)
assert_type(train.enqueue(3).result(), float | None)
assert_type(welcome.options(delay=1).enqueue(1).result(), str)
assert_type(app.enqueue(welcome.job(1)), holdfast.Job[str])
assert_type(app.enqueue_many([welcome.job(1)]), list[holdfast.Job[Any]])

number: int = welcome.enqueue(42).result()  # error: assignment / reportAssignmentType
job.id = "other"  # error: misc / reportAttributeAccessIssue

assert_type(resize("a"), bytes)
wrong: str = resize("a")  # error: assignment / reportAssignmentType
resize(3)  # error: arg-type / reportArgumentType


async def main() -> None:
    assert_type(await welcome(1), str)
    assert_type(await (await welcome.aenqueue(1)).aresult(), str)
    assert_type(await (await report.aenqueue("may")).aresult(timeout=3), dict[str, int])
    assert_type(await app.aenqueue(resize.job("a")), holdfast.Job[bytes])
    assert_type(await (await app.aenqueue(resize.job("a"))), bytes)
    assert_type([frame.kind async for frame in job.astream()], list[str])
    assert_type(await job.aretry(), bool)
