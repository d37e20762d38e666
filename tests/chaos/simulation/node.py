"""A process of the simulated cluster: a worker, or somebody who calls. It can be killed, frozen, and left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.clock import SECOND
from holdfast.worker.worker import Worker

from .beside import LaneHeartbeat, LaneTimekeeper
from .shore import Shore

if TYPE_CHECKING:
    from .world import World


class NodeClock:
    """The clock of one node: its wall clock may be off, its monotonic one never is."""

    def __init__(self, world: World, skew: float) -> None:
        self._world = world
        self._skew = round(skew * SECOND)

    def now(self) -> int:
        return self._world.wall() + self._skew

    def monotonic(self) -> float:
        return self._world.loop.time()


class Node:
    """`main` is where its loop runs, `side` stands for its other threads."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.main = world.loop.lane(self)
        self.side = world.loop.lane(self)
        self.is_dead = False
        self.worker: Worker | None = None
        self.works = False
        """Whether it is a worker's."""
        self.has_started = False
        self.is_leaving = False
        self.store = Shore(self)
        skew = world.nemesis.weather.skew
        self.clock = NodeClock(world, world.dice.uniform(-skew, skew))

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run it on the node's loop."""
        task = self.main.context.run(lambda: self.world.loop.create_task(work()))
        self.main.context.run(lambda: task.add_done_callback(self._require_success))
        return task

    def _require_success(self, task: asyncio.Task[Any]) -> None:
        if not self.is_dead and not task.cancelled() and (error := task.exception()) is not None:
            self.world.misconduct.append(f"{self.name} ended with {error!r}")

    def start_worker(self) -> None:
        self.works = True
        self.spawn(self._work)

    async def _work(self) -> None:
        world = self.world
        self.worker = Worker(
            self.store,  # type: ignore[arg-type]
            world.app.all_tasks,
            world.settings,
            app=world.app,
            declarations=world.app.declarations(),
            clock=self.clock,
            random=world.dice.random,
            heartbeats=LaneHeartbeat,
            timekeepers=LaneTimekeeper,
        )
        await self.worker.start()
        self.has_started = True

    def crash(self) -> None:
        """All of it is gone at this instant."""
        if not self.is_dead:
            self.is_dead = True
            for lane in (self.main, self.side):
                self.world.loop.kill(lane)
            self.world.bury_later(self)

    def freeze(self, seconds: float) -> None:
        """As SIGSTOP does; it comes back and knows nothing of it."""
        until = self.world.loop.time() + seconds
        for lane in (self.main, self.side):
            self.world.loop.rest(lane, until)

    def freeze_past_lease(self) -> None:
        self.world.nemesis.counts["pauses"] += 1
        self.freeze(self.world.dice.uniform(1.0, 2.5) * self.world.settings.lease)

    def block(self, seconds: float) -> None:
        """A handler holds the event loop; the other threads go on."""
        self.world.loop.rest(self.main, self.world.loop.time() + seconds)

    def leave(self) -> None:
        """Stop the worker as a deployment does."""
        if self.has_started and not self.is_leaving:
            self.is_leaving = True
            self.spawn(self._leave)

    async def _leave(self) -> None:
        assert self.worker is not None
        await self.worker.stop(grace=self.world.dice.choice((0.0, 0.5, 2.0)))
        self.crash()
