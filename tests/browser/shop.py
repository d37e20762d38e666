"""A shop with something on every page: jobs in every state, a flow, a stream, an approval, limits, deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import holdfast
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState

T = TypeVar("T")


def apart(work: Callable[[], T]) -> T:
    """Run in a thread of its own: Playwright's event loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@dataclass(frozen=True, slots=True)
class Shop:
    """The app, and what its tests ask of it. Each film stops after a scene, at a door of its own."""

    app: holdfast.App
    doors: defaultdict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))

    def ask(self, question: Callable[[holdfast.App], T]) -> T:
        """Ask the store."""
        return apart(lambda: question(self.app))

    def state(self, job_id: str) -> str:
        return str(self.ask(lambda app: app.jobs.get(job_id).state))

    def enqueue(self, task: str, *arguments: object, **options: object) -> str:
        made = self.app.tasks[task].options(**options)  # type: ignore[arg-type]
        return self.ask(lambda app: app.enqueue(made.job(*arguments)).id)

    def run(self, queue: str) -> None:
        """Run what is due in a queue, here and now."""
        self.ask(lambda app: app.drain(queues=[queue]))

    def some(self, n: int, **options: object) -> list[str]:
        return [self.enqueue("mail.send", f"somebody{i}@example.com", **options) for i in range(n)]

    def failed(self) -> str:
        """A job that has failed for good."""
        job_id = self.enqueue("billing.charge", 4711)
        self.run("billing")
        return job_id

    def film(self, title: str) -> str:
        """A film whose first scene is on the screen."""
        job_id = self.enqueue("film.show", title)
        self.ask(lambda app: next(iter(app.streams.follow(app.job(job_id)))))
        return job_id

    def waiting(self) -> str:
        """A report that waits for somebody's approval."""
        job_id = self.enqueue("report.write", "margins")
        self.run("reports")
        return job_id


@contextlib.contextmanager
def open_shop(store: str) -> Iterator[Shop]:
    """A shop at work. Its worker makes films; all else runs when a test says so."""
    shop = Shop(shop_app(store))
    _films(shop)
    shop.ask(fill)
    with shop.app.worker(queues=["films"], concurrency=8, name="projector", grace=0.1):
        shop.film("The General")
        yield shop
    shop.app.close()


def _films(shop: Shop) -> None:
    @shop.app.task(name="film.show", queue="films")
    async def show(ctx: holdfast.Context, title: str) -> None:
        for scene in range(1, 100_000):
            await ctx.emit(f"{title}, scene {scene}\n")
            await ctx.progress(min(99, scene), f"scene {scene}")
            while not shop.doors[title].is_set():
                await asyncio.sleep(0.05)
            shop.doors[title].clear()


def shop_app(store: str) -> holdfast.App:
    """Its tasks. None of them runs by itself: the tests decide."""
    app = holdfast.App(store, durable=False, tenants=("acme", "globex"))
    app.budget("research", tokens=10_000)
    app.rate("payments", capacity=5, per_second=5)
    app.breaker("partner", failures=3, open_for=60)

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

    @app.task(name="etl.extract", queue="etl")
    async def extract(region: str) -> int:
        return len(region)

    @app.task(name="etl.merge", queue="etl")
    async def merge(rows: list[int]) -> int:
        return sum(rows)

    @app.cron("0 3 * * *", zone="Europe/Paris", name="nightly")
    def nightly() -> None: ...

    # However late a test comes to it, it waits to be tried again.
    @app.destination("crm", retry=holdfast.RetryPolicy(kind="fixed", initial=3600))
    def crm(events: list[holdfast.model.OutboxEvent]) -> None:
        raise ConnectionError("503 from crm.example")

    return app


async def _draft(ctx: holdfast.Context) -> int:
    for word in ("once", "upon", "a", "time"):
        await ctx.emit(f"{word} ")
    return 4


def fill(app: holdfast.App) -> None:
    """Jobs in every state, as real runs leave them."""
    task = app.tasks
    app.enqueue_many([task["mail.send"].options(tenant="acme").job(f"user{n}@example.com") for n in range(12)])
    app.enqueue_many([task["billing.charge"].job(n) for n in range(3)])
    app.enqueue_many([task["report.write"].job(topic) for topic in ("churn", "growth")])
    start_flow(app)
    app.schedules.ensure()
    app.outbox("crm").put({"seats": 3}, kind="usage")
    app.drain()
    first, *_ = app.jobs.find(JobFilter(task="report.write", state=JobState.SUSPENDED))
    app.signals.send(app.job(first.id), "approval", True)
    app.drain()
    app.enqueue_many([task["mail.send"].job(f"late{n}@example.com") for n in range(4)])
    app.enqueue(task["mail.send"].options(delay=3600, tags=["later"]).job("tomorrow@example.com"))
    app.jobs.hold(app.enqueue(task["mail.send"].job("held@example.com")), actor="ada", reason="the template is wrong")
    app.enqueue(task["mail.send"].job("cancelled@example.com")).cancel()
    start_flow(app)
    app.quotas.of("acme").set("exports", limit=100, window=3600, concurrency=2)
    endpoint = app.webhooks.add("https://hooks.example.com/in", events=["job.failed"], reason="the pager")
    app.webhooks.test(endpoint.id)
    app.tokens.create("the till", role="operator")
    app.stats.roll()


def start_flow(app: holdfast.App) -> str:
    with app.flow("nightly") as flow:
        rows = [flow.add(app.tasks["etl.extract"].job(region)) for region in ("north", "south")]
        flow.add(app.tasks["etl.merge"].job([row.output for row in rows]))
    return flow.id
