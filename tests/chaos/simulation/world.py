"""A whole cluster in one thread: some workers and those who use them, over one database in memory, from one seed.

First the weather is foul, and every promise must hold now and then and at its end. Then it is calm, and everything must
come to its end within a bounded time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random

from holdfast.clock import SECOND
from holdfast.ids import ids
from holdfast.storage.ops.jobs import queries
from holdfast.storage.ops.store import verify
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import Statement
from holdfast.worker.settings import WorkerSettings
from tests.chaos.check import require
from tests.chaos.facts import Facts, rows, shape_of
from tests.chaos.ledger import Line

from .actors import Actors
from .faults import Nemesis, Weather, foul
from .loop import VirtualLoop
from .node import Node
from .sea import Sea, sea
from .tasks import BUDGET, SimulatedApp, make_app

LONGEST = 240.0
"""Virtual seconds of calm within which everything must have ended."""
_BEGAN = 1_700_000_000 * SECOND
_UNFINISHED = Statement(
    "unfinished",
    """select (select count(*) from holdfast_any_job
                where state not in ('succeeded', 'failed', 'cancelled', 'expired', 'skipped'))
            + (select count(*) from holdfast_hop)""",
    "",
)


class World:
    """Make it and let it `live`; the seed decides the rest."""

    def __init__(self, seed: int, app: SimulatedApp, sea: Sea) -> None:
        self.dice = Random(seed)
        self.app = app
        self.sea = sea
        self.loop = VirtualLoop(self.dice)
        self.nemesis = Nemesis(self.dice, foul(self.dice))
        self.settings = _settings(self.dice)
        self.trace: list[tuple[object, ...]] = []
        self.ledger: list[Line] = []
        self.misconduct: list[str] = []
        """What workers did though they knew better."""
        self.nodes: list[Node] = []
        self._step = 0
        self._made = 0
        self._wanted = self.dice.choice((2, 2, 2, 2, 3, 3, 4, 5))
        self._phase = self.dice.uniform(2.5, 6.0)

    # -- time and wake-ups

    def wall(self) -> int:
        """The clock of the database."""
        return _BEGAN + self._step + round(self.loop.time() * SECOND)

    def notify(self, topics: set[str]) -> None:
        """Tell each node, unless it does not hear it."""
        for node in self.nodes:
            heard = not node.is_dead and not self.nemesis.happens(self.nemesis.weather.deaf)
            if heard and any(not listener.topics.isdisjoint(topics) for listener in node.store.wakeups._listeners):
                wait = self.nemesis.latency()
                self.loop.call_later(wait, node.store.wakeups.notify, topics, context=node.main.context.copy())

    # -- life

    def live(self, hint: str, batches: int = 0) -> None:
        """`batches` is how many jobs there are beside the others for a task that takes batches."""
        people, actors = Node(self, "people"), Actors(self)
        self.nodes.append(people)
        for _ in range(self._wanted):
            self._add_worker()
        if batches:
            people.spawn(lambda: actors.fill_batches(self._phase, batches))
        busy = people.spawn(lambda: actors.act(self._phase, self.dice.randint(3, 8)))
        self._suffer(hint)
        self.loop.run(lambda: busy.done() or people.is_dead, self.loop.time() + 60)
        require(self.facts(), hint=hint)
        self._heal()
        peacemakers = Node(self, "peacemakers")
        self.nodes.append(peacemakers)
        peacemakers.spawn(actors.make_peace)
        self._drain(hint)
        if wrong := [*self.misconduct, *(f"nobody caught {mishap}" for mishap in self.loop.mishaps)]:
            raise AssertionError(f"{wrong[0]}\nreproduce: {hint}")

    def close(self) -> None:
        for node in self.nodes:
            node.is_dead = True
        self.loop.close()

    def _add_worker(self) -> None:
        self._made += 1
        node = Node(self, f"worker{self._made}")
        self.nodes.append(node)
        node.start_worker()

    @property
    def _workers(self) -> list[Node]:
        return [node for node in self.nodes if node.works and not node.is_dead and not node.is_leaving]

    def _suffer(self, hint: str) -> None:
        """Every quarter of a second something may happen to somebody."""
        checked_at = self.dice.uniform(1.0, 3 * self._phase)
        while self.loop.time() < self._phase:
            self.loop.run(lambda: False, self.loop.time() + 0.25)
            self._strike(self.nemesis.weather)
            if self.loop.time() >= checked_at:
                checked_at = LONGEST
                require(self.facts(), hint=hint)

    def _strike(self, weather: Weather) -> None:
        happens, dice, count = self.nemesis.happens, self.dice, self.nemesis.counts
        lease = self.settings.lease
        for node in self._workers:
            if happens(weather.crashes / 4):
                node.crash()
            elif happens(weather.pauses / 4):
                count["pauses"] += 1
                node.freeze(dice.uniform(0.2, 2.5) * lease)
            elif happens(weather.blocks / 4):
                count["blocks"] += 1
                node.block(dice.uniform(0.2, 2.5) * lease)
            elif happens(weather.stops / 4):
                count["stops"] += 1
                node.leave()
        if happens(weather.steps / 4):
            count["steps"] += 1
            self._step += round(dice.choice((-20.0, -3.0, 3.0, 60.0, 3600.0)) * SECOND)
        if len(self._workers) < self._wanted and happens(0.3):
            self._add_worker()

    def _heal(self) -> None:
        self.nemesis.heal()
        while len(self._workers) < 2:
            self._add_worker()

    def _drain(self, hint: str) -> None:
        end = self.loop.time() + LONGEST
        while self.sea.read(Op(_count_unfinished)):
            if self.loop.time() >= end:
                require(self.facts(), drained=True, hint=hint)
                raise AssertionError(f"after {LONGEST:g} s of calm there is left {self._left()}\nreproduce: {hint}")
            self.loop.run(lambda: False, self.loop.time() + 1.0)
            while len(self._workers) < 2:  # a poisonous job may still take its worker down
                self._add_worker()
        facts = self.facts()
        require(facts, drained=True, hint=hint)
        known = {node.worker.id for node in self.nodes if node.worker is not None}
        for row in facts.of("worker"):
            if row.state == "alive" and row.lease_until > facts.now and row.id not in known:
                self.misconduct.append(f"worker {row.id} keeps its lease, and nobody is it")

    def _left(self) -> list[object]:
        ends = ("succeeded", "failed", "cancelled", "expired", "skipped")
        return [job for job in self.facts().of("any_job") if job.state not in ends]

    def bury_later(self, node: Node) -> None:
        """A supervisor may know that the process is gone, before its lease is over."""
        self.nemesis.counts["crashes"] += not node.is_leaving
        worker = node.worker
        if worker is not None and not node.is_leaving and self.nemesis.happens(0.3):
            people = self.nodes[0]
            self.loop.call_later(0.1, _bury, self.app, worker.id, context=people.main.context.copy())

    def facts(self) -> Facts:
        tables, now, findings = self.sea.read(Op(_gather))
        budgets = frozenset({BUDGET})
        return Facts(now, tables, findings, tuple(self.ledger), strict_budgets=budgets)


@contextmanager
def simulated(seed: int) -> Iterator[World]:
    """A world, and everything that is random in it from the seed."""
    water = sea()
    world = World(seed, the_app(), water)
    water.begin(world.wall)
    state, wall, entropy = random.getstate(), ids.wall, ids.entropy
    random.seed(seed)
    ids.wall, ids.entropy = (lambda: world.wall() * 1000), Random(seed).randbytes
    ids.reseed()
    try:
        yield world
    finally:
        world.close()
        random.setstate(state)
        ids.wall, ids.entropy = wall, entropy
        ids.reseed()


@cache
def the_app() -> SimulatedApp:
    return make_app()


def _settings(dice: Random) -> WorkerSettings:
    return WorkerSettings(
        concurrency=dice.choice((1, 2, 4)),
        lease=dice.choice((2.0, 2.0, 4.0)),
        grace=1.0,
        cancel_grace=dice.choice((0.2, 1.0)),
        poll=dice.choice((1.0, 4.0)),
        rescue_interval=1.5,
        expire_interval=3.0,
        split_interval=0.0,
        budget_interval=3.0,
        resolve_interval=dice.choice((2.0, 5.0)),
        webhook_interval=0.0,
        prune_interval=0.0,
        sweep_interval=0.0,
        meter_interval=0.0,
        block_warning=0.0,
        name="simulated",
    )


def _bury(app: SimulatedApp, worker_id: str) -> None:
    try:
        app.workers.rescue(worker_id)
    except Exception:
        return  # its lease will run out


async def _count_unfinished(tx: Tx) -> int:
    found = await tx.one(_UNFINISHED)
    return int(found[0]) if found else 0


async def _gather(tx: Tx) -> tuple[object, ...]:
    return await rows(tx, await _shape(tx)), await queries.clock(tx), tuple(await verify(tx, ()))


_known_shape: list[object] = []


async def _shape(tx: Tx) -> object:
    if not _known_shape:
        _known_shape.append(await shape_of(tx))
    return _known_shape[0]
