"""A store with one of everything, so that every operation finds something to do; and how to bring it to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import holdfast
from holdfast import App, Context, Park
from holdfast.clock import SECOND, ManualClock
from holdfast.model import OutboxEvent
from holdfast.model.flows import Edge
from holdfast.outcomes import Rejected
from holdfast.storage.ops.budgets import shortages
from holdfast.storage.ops.flows import dependency_resolution, endings, flow_control
from holdfast.storage.ops.limits import lanes
from holdfast.storage.ops.signals import waking
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Store
from tests.conformance.world import World, by_write, worker_spec

Note = Callable[..., None]
NOT_SERVED = frozenset({"webhooks", "nobody", "lent"})
"""Queues that no drain here serves: one would call out, the other is what its name says."""
SECRET = "5e" * 32


@dataclass
class Stage:
    """An app over a store that can be exchanged for a copy of it, and the names of what is in there."""

    app: App
    clock: ManualClock
    store: Store
    began: int
    jobs: dict[str, str] = field(default_factory=dict)
    """Ids, by what they are an example of."""
    handles: dict[str, str] = field(default_factory=dict)
    """Of runs elsewhere."""
    things: dict[str, Any] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return World(self.store, self.clock, by_write(self.store), lambda: None)

    def use(self, store: Store) -> None:
        """A copy, which has the name of the store of which it is one."""
        if known := self.app.remote._known:
            known[:] = [(store, known[0][1])]
        self.store = self.app._opened = store

    def wait_until(self, seconds: float) -> None:
        """So long after the stage was made; who is there already need not wait."""
        self.clock.advance(max(0.0, (self.began - self.clock.now()) / SECOND + seconds))

    def run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        return self.store.write(Op(lambda tx: op(tx, *args, **kwargs)))


def furnish(store: Store, clock: ManualClock, note: Note = lambda *_: None) -> Stage:
    """`note` is told of each run's beginning and of its effect, as a ledger is."""
    app = App(":memory:", clock=clock)
    stage = Stage(app, clock, store, clock.now())
    stage.use(store)
    _declare(app, stage)
    _witness(app, note)
    _limits(app)
    _jobs(app, stage)
    _flows(app, stage)
    _outside(app, stage)
    return stage


def _declare(app: App, stage: Stage) -> None:
    @app.task(max_attempts=3)
    async def work(word: str = "") -> str:
        return word

    @app.task(max_attempts=1)
    async def fail(word: str = "") -> None:
        raise ValueError(word)

    @app.task(max_attempts=3)
    async def talk(ctx: Context, word: str = "") -> str:
        await ctx.step("say", lambda: word)
        await ctx.emit(word)
        await ctx.emit("aside", best_effort=True)
        await ctx.summarize({"word": word})
        await ctx.progress(50, message=word)
        await ctx.artifact("file", word.encode())
        await ctx.spend("team", tokens=1)
        async with ctx.reserve("team", tokens=5) as held:
            await held.settle(tokens=2)
        return word

    @app.task(max_attempts=3)
    async def wait(ctx: Context) -> str:
        link = await ctx.waitpoint("approval", expires=36_000_000)
        stage.things["token"] = link.token
        return str(await ctx.wait_for(link))

    @app.task(max_attempts=3)
    async def grow(ctx: Context) -> None:
        async with ctx.flow() as flow:
            flow.add(work.job("grown"))

    app.task(name="lent", queue="lent", max_attempts=3, reserve={"team": {"tokens": 3}}, quota="calls")(_never)

    @app.destination("cloud", ordered=True)
    def cloud(events: list[OutboxEvent]) -> Rejected:
        if events[0].data.startswith("later"):
            raise Park("nobody has logged in")
        return Rejected({event.id: event.data for event in events if event.data.startswith("no")})


def _witness(app: App, note: Note) -> None:
    @app.middleware
    async def witness(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        note("S", ctx.id, ctx.job.epoch)
        answer = await call()
        note("E", ctx.id, ctx.job.epoch)
        return answer


async def _never() -> None:
    raise AssertionError("runs elsewhere")


def _limits(app: App) -> None:
    app.budgets.set("team", {"tokens": 1_000})
    app.quotas.set("calls", limit=100, window=60, concurrency=50)
    app.limits.set_concurrency(5, task="work")
    app.limits.set_rate("mail", capacity=5, per_second=1)
    app.limits.set_total("default", 50)
    app.breakers.set("api", failures=2, open_for=30)
    app.keys.seed("first", SECRET)
    app.queues.set("loud", events="all")
    app.schedules.create("nightly", app.tasks["work"].job("tick"), cron="0 3 * * *")
    app.schedules.create("paused", app.tasks["work"].job("tick"), every=timedelta(hours=1))
    app.schedules.pause("paused")


def _jobs(app: App, stage: Stage) -> None:
    work, tasks = app.tasks["work"], app.tasks
    made = {
        "done": app.enqueue(tasks["talk"].job("done")),
        "failed": app.enqueue(tasks["fail"].job("failed")),
        "suspended": app.enqueue(tasks["wait"].job()),
    }
    box = app.outbox("cloud")
    made |= {"sent": box.put("sent", key="a"), "rejected": box.put("no", key="b")}
    app.drain(webhooks=False)
    made |= {
        "ready": app.enqueue(work.job("ready")),
        "delayed": app.enqueue(work.options(delay=3600).job("later")),
        "held": app.enqueue(work.job("held")),
        "keyed": app.enqueue(work.options(dedupe_key="key", concurrency_key="lane", concurrency=1).job("keyed")),
        "windowed": app.enqueue(work.options(dedupe_key="window", dedupe_until=timedelta(hours=1)).job("windowed")),
        "granted": app.enqueue(work.job("granted")),
        "loud": app.enqueue(work.options(queue="loud").job("loud")),
        "limited": app.enqueue(work.options(rate="mail", breaker="api").job("limited")),
        "mortal": app.enqueue(work.options(deadline=3600, delay=3600).job("mortal")),
        "waiting": box.put("later", key="c"),
        "behind": box.put("behind", key="c"),
    }
    stage.jobs |= {name: job.id for name, job in made.items()}
    app.jobs.hold(stage.jobs["held"])
    app.jobs.grant(stage.jobs["granted"], worker="somebody", expires=60)
    stage.things["waitpoint"] = app.signals.pending(stage.jobs["suspended"])[0].id
    app.signals.send(stage.jobs["suspended"], "note", "hello", key="once")


def _flows(app: App, stage: Stage) -> None:
    work, fail = app.tasks["work"], app.tasks["fail"]
    with app.flow("ended") as ended:
        first = ended.add(fail.options(queue="first").job("x"))
        ended.add(work.options(queue="first").job("y"), after=first)
    app.drain(queues=["first"], webhooks=False)
    with app.flow("pair", on_success=work.job("after"), on_failure=work.job("after")) as pair:
        first = pair.add(work.job("first"))
        stage.jobs["waiting"] = pair.add(work.options(queue="nobody").job("second"), after=first).id
    with app.flow("growing") as growing:
        growing.add(app.tasks["grow"].options(queue="growing").job())
    staged = app.flows.begin("staged")
    added = app.flows.add(staged, {"up": work.job("up"), "down": work.job("down")})
    stage.things |= {"ended": ended.id, "pair": pair.id, "staged": staged.id, "members": added}
    stage.things["edge"] = Edge(added["up"], added["down"])
    stage.jobs["member"] = next(
        job.id for job in app.jobs.find(holdfast.model.JobFilter(flow=ended.id, state="failed"))
    )


def _outside(app: App, stage: Stage) -> None:
    """Workers elsewhere with runs in their hands, one that is lost, endpoints, tokens."""
    lent = app.tasks["lent"]
    worker = app.remote.register("elsewhere", queues=["lent"], tasks=["lent"], concurrency=20).worker
    for name in ("free", "first", "second", "third"):
        stage.jobs[f"lent-{name}"] = app.enqueue(lent.job()).id
        if name != "free":
            (job,) = app.remote.claim(worker, 1, claim_id=f"claim-{name}")
            stage.handles[name], stage.jobs[f"lent-{name}"] = job.handle, job.id
    stage.jobs["lent-free"] = app.enqueue(lent.job()).id
    app.signals.send(stage.jobs["lent-second"], "early", "bird")
    world = stage.world
    world.run(workers.register, worker_spec("lost", queues=("going",)))
    stage.jobs["lost"] = app.enqueue(app.tasks["work"].options(queue="going").job("lost")).id
    world.claim("lost", queues=["going"])
    world.run(workers.register, worker_spec("mine", queues=("here",)))
    stage.jobs["mine"] = app.enqueue(app.tasks["work"].options(queue="here").job("mine")).id
    (stage.things["run"],) = world.claim("mine", queues=["here"])
    endpoint = app.webhooks.add("https://example.com/hook")
    stage.things |= {"worker": worker, "endpoint": endpoint.id, "delivery": app.webhooks.test(endpoint.id).id}
    token = app.tokens.create("robot", role="operator")
    stage.things |= {"secret": token.secret, "token-id": token.id}
    opened = app.tokens.login(token.secret)
    assert opened is not None
    stage.things["session"] = opened[0]


def recover(stage: Stage) -> None:
    """Time passes, the lost are rescued, and all that workers and chores can do is done."""
    stage.clock.advance(70)
    for worker in stage.store.read(Op(workers.list_workers)):
        while stage.run(workers.rescue, worker.id).more:
            pass
    _settle(stage)
    for _ in range(10):
        runs = stage.app.drain(queues=_queues(stage), webhooks=False).runs
        _settle(stage)
        if not runs:
            return


def _settle(stage: Stage) -> None:
    """Do the chores of a worker."""
    stage.run(lanes.unpark_stalled)
    stage.run(waking.wake_due)
    for key in stage.store.read(Op(shortages.what_is_short)):
        ids = stage.store.read(Op(lambda tx, key=key: shortages.who_fits(tx, key)))  # type: ignore[misc]
        stage.run(shortages.release_waiting, ids)
    for _ in range(100):
        left = stage.store.read(Op(dependency_resolution.left))
        for flow_id in stage.store.read(Op(flow_control.cancelling)):
            stage.run(flow_control.cancel_page, flow_id)
        if not left.any_but_callbacks:
            break
        stage.run(dependency_resolution.resolve_page)
        stage.run(dependency_resolution.sweep)
    stage.run(endings.pay_callbacks)


def _queues(stage: Stage) -> list[str]:
    found = {count.queue for count in stage.app.jobs.counts()}
    return sorted({*found, "default"} - NOT_SERVED)
