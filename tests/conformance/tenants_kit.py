"""Two tenants on one store, each with one of everything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from holdfast import App, Context, Park
from holdfast.client.tenants import Scoped
from holdfast.model import JobFilter, OutboxEvent
from holdfast.outcomes import Rejected

from .world import World

THEM, US = "alpha", "beta"
WORD = "Zebra"
"""In everything of theirs: arguments, results, errors, signals, frames, files."""
_NOT_THEIRS = {"holdfast_event", "holdfast_event_inbox", "holdfast_event_mark"}
"""What readers move along, whoever they are."""


@dataclass
class Belongings:
    """What one tenant has."""

    jobs: dict[str, str] = field(default_factory=dict)
    """By what they are an example of."""
    flow: str = ""
    token: str = ""
    fingerprint: str = ""
    endpoint: str = ""
    delivery: str = ""
    secrets: set[str] = field(default_factory=set)
    """Whatever names something of theirs."""


@dataclass
class Stage:
    """Both tenants, and the view of one."""

    world: World
    app: App
    them: Belongings
    us: Belongings
    loop: asyncio.Runner

    @property
    def view(self) -> Scoped:
        return self.app.scoped(US)

    def rows(self) -> dict[str, set[tuple[Any, ...]]]:
        """Every row that is theirs, by table."""
        found = self.world.dump(_NOT_THEIRS)
        return {table: {row for row in rows if self.is_theirs(row)} for table, rows in found.items()}

    def is_theirs(self, row: tuple[Any, ...]) -> bool:
        return THEM in row or any(isinstance(value, str) and self.secrets_in(value) for value in row)

    def secrets_in(self, text: str) -> set[str]:
        return {secret for secret in (WORD, *self.them.secrets) if secret in text}


def set_up(world: World, loop: asyncio.Runner) -> Stage:
    """Give each tenant one of everything."""
    app = App(":memory:", clock=world.clock)
    app._opened = world.store
    tokens: dict[str, str] = {}
    _tasks(app, tokens)
    them, us = (_furnish(app, world, tenant, word, tokens) for tenant, word in ((THEM, WORD), (US, "Oak")))
    _park(app, them)
    return Stage(world, app, them, us, loop)


def _tasks(app: App, tokens: dict[str, str]) -> None:
    @app.task(max_attempts=1)
    async def talk(ctx: Context, word: str) -> str:
        await ctx.step("say", _say, word)
        await ctx.emit(word)
        await ctx.summarize({"word": word})
        await ctx.progress(message=word)
        await ctx.artifact("file", word.encode())
        await ctx.spend("team", tokens=1)
        return word

    @app.task(max_attempts=1)
    async def fail(word: str) -> None:
        raise type(f"{word}Error", (ValueError,), {})(word)

    @app.task
    async def wait(ctx: Context, word: str) -> str:
        link = await ctx.waitpoint("approval", expires=3600)
        tokens[ctx.tenant] = link.token
        return str(await ctx.wait_for(link))

    @app.destination("cloud")
    def cloud(events: list[OutboxEvent]) -> Rejected:
        if events[0].data.startswith("later"):
            raise Park("nobody has logged in")
        return Rejected({event.id: event.data for event in events if event.data.startswith("no")})


def _park(app: App, them: Belongings) -> None:
    """What waits in an outbox until somebody acts; last, because a success would let it go."""
    entries = [app.scoped(tenant).outbox("cloud").put(f"later {word}") for tenant, word in ((THEM, WORD), (US, "Oak"))]
    app.drain(queues=["outbox.cloud"])
    assert entries[0] is not None
    them.jobs["parked"] = entries[0].id
    them.secrets.add(entries[0].id)


def _say(word: str) -> str:
    return word


def _furnish(app: App, world: World, tenant: str, word: str, tokens: dict[str, str]) -> Belongings:
    view, tasks = app.scoped(tenant), app.tasks
    view.budgets.set("team", {"tokens": 1_000})
    view.quotas.set("calls", concurrency=5)
    view.quotas.admit("calls", f"key-{tenant}")
    view.schedules.create("nightly", tasks["talk"].options().job(word), cron="0 3 * * *")  # type: ignore[call-arg]
    keyed = {"dedupe_key": "key", "concurrency_key": "lane", "concurrency": 1, "tags": ["tag"]}
    made = {
        "done": view.enqueue(tasks["talk"].options(**keyed).job(word)),
        "failed": view.enqueue(tasks["fail"].job(word)),
        "suspended": view.enqueue(tasks["wait"].job(word)),
    }
    with view.flow("pair") as flow:
        first = flow.add(tasks["talk"].job(word))
        flow.add(tasks["talk"].options(delay=3600).job(word), after=first)
    app.drain(webhooks=False)
    made |= {
        "delayed": view.enqueue(tasks["talk"].options(delay=3600).job(word)),
        "held": view.enqueue(tasks["talk"].job(word)),
        "ready": view.enqueue(tasks["talk"].job(word)),
        "running": view.enqueue(tasks["talk"].options(queue=f"busy-{tenant}").job(word)),
    }
    made |= {"sent": view.outbox("cloud").put(word, id="mine"), "rejected": view.outbox("cloud").put(f"no {word}")}
    app.drain(queues=["outbox.cloud"])
    view.jobs.hold(made["held"], actor=f"operator of {word}")
    view.jobs.grant(made["ready"], worker=f"worker of {word}")
    view.signals.send(made["suspended"].id, "note", word)
    view.schedules.run_now("nightly")
    world.claim(world.worker(queues=[f"busy-{tenant}"]), queues=[f"busy-{tenant}"])
    kinds = view.errors.list(task="fail")
    endpoint = view.webhooks.add(f"https://{word.lower()}.example.com/{word}")
    delivery = view.webhooks.test(endpoint.id)
    found = Belongings({kind: job.id for kind, job in made.items()}, flow.id, tokens[tenant], kinds[0].fingerprint)
    found.endpoint, found.delivery = endpoint.id, delivery.id
    ids = {job.id for job in app.jobs.find(JobFilter(tenant=tenant, limit=1000))}
    points = {one.id for one in view.signals.pending()}
    found.secrets = {*ids, *points, flow.id, tokens[tenant], kinds[0].fingerprint, endpoint.id, endpoint.secret}
    return found
