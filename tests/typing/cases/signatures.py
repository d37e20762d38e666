"""A task's `enqueue` has the function's own parameters, without its context."""

from datetime import timedelta
from typing import Any, assert_type

import holdfast

app = holdfast.App(":memory:")


@app.task
async def welcome(user_id: int, shout: bool = False) -> str:
    return f"welcome {user_id}"


@app.task(queue="mail", max_attempts=5, timeout=30)
async def report(ctx: holdfast.Context, month: str, *, pages: int) -> dict[str, int]:
    return {month: pages}


@app.task
def resize(path: str, width: int) -> bytes:
    return b""


@app.task(timeout=timedelta(minutes=1), isolate="process", requires=["gpu"])
def train(ctx: holdfast.SyncContext, epochs: int) -> float:
    return 0.0


welcome.enqueue(42)
welcome.enqueue(42, shout=True)
welcome.enqueue(user_id=42)
welcome.enqueue("42")  # error: arg-type / reportArgumentType
welcome.enqueue()  # error: call-arg / reportCallIssue
welcome.enqueue(42, True, 3)  # error: call-arg / reportCallIssue
welcome.enqueue(42, loud=True)  # error: call-arg / reportCallIssue

report.enqueue("may", pages=3)
report.enqueue("may", 3)  # error: call-arg / reportCallIssue
report.enqueue("may", pages="3")  # error: arg-type / reportArgumentType
report.enqueue(ctx=None, month="may", pages=3)  # error: call-arg / reportCallIssue

resize.enqueue("a.png", 64)
resize.enqueue("a.png", "64")  # error: arg-type / reportArgumentType

train.enqueue(3)
train.enqueue(epochs=3)
train.enqueue("3")  # error: arg-type / reportArgumentType

welcome.job(42)
welcome.job("42")  # error: arg-type / reportArgumentType
app.enqueue_many([welcome.job(1), resize.job("a.png", 64)])
app.enqueue_many([welcome(1)])  # error: list-item / reportArgumentType

welcome.options(delay=60, priority=9).enqueue(42)
welcome.options(delay=60, priority=9).enqueue("42")  # error: arg-type / reportArgumentType
welcome.options(dedupe_until=timedelta(hours=1), on_duplicate="replace", dedupe_key="k")
welcome.options(on_duplicate="ignore")  # error: arg-type / reportArgumentType
welcome.options(later=60)  # error: arg-type / reportArgumentType
welcome.options(max_attempts=None, timeout=None, tags={"order": "4711"})

elsewhere = app.declare("elsewhere")
elsewhere.enqueue(anything=1)
assert_type(elsewhere.enqueue(anything=1), holdfast.Job[Any])


@app.task(queue=3)  # error: call-overload untyped-decorator / reportArgumentType
async def misconfigured() -> None: ...


async def main() -> None:
    await welcome.aenqueue(42)
    await welcome.aenqueue("42")  # error: arg-type / reportArgumentType
    await report.aenqueue("may", pages=3)
    await report.options(tenant="acme").aenqueue("may")  # error: call-arg / reportCallIssue


class Pool: ...


@app.resource(scope="worker")
def pool() -> Pool:
    return Pool()


@app.task
async def fetch(url: str, pool: Pool = holdfast.injected) -> bytes:
    return b""


assert_type(pool(), Pool)
fetch.enqueue("https://example.com")
fetch.enqueue(7)  # error: arg-type / reportArgumentType
app.resource(scope="job")  # error: call-overload / reportArgumentType


@app.task(batch=100, wait=0.5)
def measure(items: list[holdfast.Item[str]]) -> list[int | Exception]:
    return [len(item.value) for item in items]


@app.task(batch=100)
async def store(items: list[holdfast.Item[bytes]], pool: Pool = holdfast.injected) -> None:
    assert_type(items[0].value, bytes)


assert_type(measure.enqueue("abc").result(), int)
assert_type(store.enqueue(b"abc").result(), None)
measure.enqueue(7)  # error: arg-type / reportArgumentType
measure.enqueue("a", "b")  # error: call-arg / reportCallIssue
