"""A shop with something on every page: jobs in every state, a flow, a stream, an approval, a budget, a schedule."""

from __future__ import annotations

import holdfast


def shop_app(store: str) -> holdfast.App:
    """Its tasks. None of them runs by itself: the tests decide."""
    app = holdfast.App(store, durable=False)
    app.budget("research", tokens=10_000)
    app.rate("payments", capacity=5, per_second=5)

    @app.task(name="mail.send", queue="mail")
    async def send(to: str, count: int = 1) -> str:
        return f"sent to {to}"

    @app.task(name="billing.charge", queue="billing", max_attempts=1)
    async def charge(invoice: int) -> None:
        raise ValueError(f"card declined for invoice {invoice}")

    @app.task(name="report.write", queue="reports")
    async def report(ctx: holdfast.Context, topic: str) -> str:
        rows = await ctx.step("load", len, topic)
        await ctx.step("draft", _draft)
        await ctx.spend("research", tokens=rows * 10)
        link = await ctx.waitpoint("approval", expires=86_400, type=bool)
        await ctx.artifact("draft.txt", b"a draft", "text/plain")
        return "approved" if await ctx.wait_for(link, type=bool) else "refused"

    async def _draft(ctx: holdfast.Context) -> int:
        for word in ("once", "upon", "a", "time"):
            await ctx.emit(f"{word} ")
        return 4

    @app.task(name="etl.extract", queue="etl")
    async def extract(region: str) -> int:
        return len(region)

    @app.task(name="etl.merge", queue="etl")
    async def merge(rows: list[int]) -> int:
        return sum(rows)

    @app.cron("0 3 * * *", zone="Europe/Paris", name="nightly")
    def nightly() -> None: ...

    @app.destination("crm")
    def crm(events: list[holdfast.OutboxEvent]) -> None:
        raise ConnectionError("503 from crm.example")

    return app


def fill(app: holdfast.App) -> None:
    """Jobs in every state, as real runs leave them."""
    task = app.tasks
    app.enqueue_many([task["mail.send"].job(f"user{n}@example.com") for n in range(12)])
    app.enqueue_many([task["billing.charge"].job(n) for n in range(3)])
    app.enqueue(task["report.write"].job("churn"))
    with app.flow("nightly") as flow:
        rows = [flow.add(task["etl.extract"].job(region)) for region in ("north", "south")]
        flow.add(task["etl.merge"].job([row.output for row in rows]))
    app.schedules.ensure()
    app.outbox("crm").put({"seats": 3}, kind="usage")
    app.drain()
    app.enqueue_many([task["mail.send"].job(f"late{n}@example.com") for n in range(4)])
    app.enqueue(task["mail.send"].options(delay=3600).job("tomorrow@example.com"))
    app.jobs.hold(app.enqueue(task["mail.send"].job("held@example.com")))
    app.enqueue(task["mail.send"].job("cancelled@example.com")).cancel()
    app.stats.roll()
