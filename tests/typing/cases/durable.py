"""Durable calls have the types of what they call."""

from typing import Any, assert_type

from holdfast import App, Context, Job, SyncContext

app = App("jobs.db")


async def fetch(url: str, *, tries: int = 1) -> bytes:
    return url.encode()


async def draft(ctx: Context, rows: list[int]) -> str:
    return str(rows)


def count(text: str) -> int:
    return len(text)


def count_here(ctx: SyncContext, text: str) -> int:
    return len(text)


@app.task
async def child(n: int) -> float:
    return n / 2


@app.task
async def report(ctx: Context) -> None:
    assert_type(await ctx.step("a", fetch, "url", tries=2), bytes)
    assert_type(await ctx.step("b", draft, [1]), str)
    assert_type(await ctx.step("c", count, "text"), int)
    assert_type(await ctx.options(max_attempts=3).step("d", count, "text"), int)
    assert_type(await ctx.enqueue(child.job(1)), Job[float])
    assert_type(await ctx.wait_for(await ctx.enqueue(child.job(1))), float)
    assert_type(await ctx.wait_for("go", type=bool, timeout=60), bool)
    assert_type(await ctx.wait_for("go", type=bool, on_timeout="resume"), Any)
    assert_type(await ctx.wait_for("go", type=bool, needed=2), Any)
    one, two = ctx.step("e", count, "a"), ctx.step("f", fetch, "b")
    assert_type(await ctx.gather(one, two), tuple[int, bytes])
    await ctx.step("a", fetch, 1)  # error: call-overload / reportArgumentType reportCallIssue
    await ctx.step("c", count)  # error: call-overload / reportCallIssue
    await ctx.wait_for("go", sometime=60)  # error: call-overload / reportCallIssue


@app.task
def report_too(ctx: SyncContext) -> None:
    assert_type(ctx.step("c", count, "text"), int)
    assert_type(ctx.step("d", count_here, "text"), int)
    assert_type(ctx.wait_for(ctx.enqueue(child.job(1))), float)
    assert_type(ctx.wait_for("go", type=bool), bool)
    assert_type(ctx.gather(lambda: 1, lambda: "a"), tuple[int, str])
    ctx.step("d", count_here, 1)  # error: call-overload / reportCallIssue
    ctx.sleep("soon")  # error: arg-type / reportArgumentType
