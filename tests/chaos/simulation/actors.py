"""Those who use the cluster: they enqueue, say the same thing twice, send signals, cancel, pause and schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import HoldfastError, StorageError
from holdfast.ids import ids
from holdfast.model.actions import ActionResult
from holdfast.model.jobs import JobState

from .tasks import PLANS, QUEUES, note

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")
_TRIES = 4


class Actors:
    """All of them, on one node. What they were told is in the ledger."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice
        self._app = world.app
        self.known: list[str] = []
        self.callers: list[str] = []
        """Jobs that wait for signals, as long as it takes."""
        self._replayed: list[str] = []
        self.tasks = dict(world.app.tasks)

    async def act(self, seconds: float, deeds: int) -> None:
        """So many deeds, spread over so many seconds."""
        for _ in range(deeds):
            await asyncio.sleep(self._dice.uniform(0, 2 * seconds / deeds))
            deed = self._dice.choice(self._deeds())
            try:
                await deed()
            except HoldfastError:
                self._world.nemesis.counts["refusals"] += 1

    async def fill_batches(self, seconds: float, jobs: int) -> None:
        """So many jobs of a task that takes batches, spread over so many seconds, and a cancel of some."""
        for _ in range(jobs):
            await asyncio.sleep(self._dice.uniform(0, 2 * seconds / jobs))
            plan = self._dice.choices(PLANS, (9, 2, 2, 1, 1, 1, 1, 1, 1), k=self._dice.randint(0, 3))
            request = self.tasks["batched"].options(id=ids.new()).job(plan)
            try:
                await self._surely(lambda request=request: self._app.aenqueue(request), request.options.id)  # type: ignore[misc]
                if self._dice.random() < 0.1 and self.known:
                    await self._cancel()
            except HoldfastError:
                self._world.nemesis.counts["refusals"] += 1

    def _deeds(self) -> list[Callable[[], Awaitable[object]]]:
        first = [self._enqueue, self._enqueue, self._enqueue, self._enqueue_many, self._flow, self._put, self._deduped]
        later = [self._cancel, self._signal, self._pause, self._resume, self._retry, self._run_now, self._schedule]
        return first + (later if self.known else [])

    # -- new jobs

    async def _enqueue(self) -> None:
        request = self._request(id=ids.new(), **self._options())
        # Before it is known to be there: whoever crashes meanwhile leaves a job behind that waits.
        if request.task.name == "waits" and '"timeout":null' in request.payload:
            self.callers.append(request.options.id)
        await self._surely(lambda: self._app.aenqueue(request), request.options.id)
        if self._dice.random() < 0.3:
            await self._surely(lambda: self._app.aenqueue(request), request.options.id)

    def _options(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._dice.random() < 0.2:
            found["delay"] = self._dice.choice((0.5, 2.0))
        if self._dice.random() < 0.1:
            found["deadline"] = self._dice.choice((0.5, 3.0))
        if self._dice.random() < 0.2:
            found["priority"] = self._dice.randrange(3)
        return found

    async def _enqueue_many(self) -> None:
        requests = [self._request("work", id=ids.new()) for _ in range(3)]
        made = await self._surely(lambda: self._app.aenqueue_many(requests))
        for job in made or ():
            self._acknowledged(job.id)

    async def _deduped(self) -> None:
        job = await self._surely(lambda: self._app.aenqueue(self._request("work", dedupe_key="the one")))
        if job is not None and job.created:
            self._acknowledged(job.id)

    async def _put(self) -> None:
        job_id, key = ids.new(), self._dice.choice((None, "a"))
        await self._surely(lambda: self._app.outbox("there").aput({}, id=job_id, key=key))

    async def _flow(self) -> None:
        flow = self._app.flow("simulated")
        made: list[Any] = []
        for nth in range(self._dice.randint(2, 4)):
            kind = self._dice.choice(("work", "work", "mortal", "limited", "steps", "grows"))
            after = [self._policy(up) for up in self._dice.sample(made, min(len(made), self._dice.randint(0, 2)))]
            made.append(flow.add(self._request(kind), name=str(nth), after=after or None))
        if await self._surely(flow.astart) is not None:
            for member in made:
                self._acknowledged(member.id)

    def _policy(self, member: Any) -> Any:
        return self._dice.choice((member.succeeded, member.succeeded, member.ended, member.failed))

    def _request(self, kind: str | None = None, **options: Any) -> Any:
        dice = self._dice
        plan = dice.choices(PLANS, (9, 2, 2, 1, 1, 1, 1, 1, 1), k=dice.randint(0, 3))
        name = kind or dice.choice(
            ("work", "work", "mortal", "limited", "steps", "waits", "parent", "spender", "admitted")
        )
        args: dict[str, list[Any]] = {
            "work": [dice.choice((0.0, 0.1, 1.0))],
            "mortal": [dice.choice((0.0, 0.5, 2.5))],
            "limited": [dice.choice((0.0, 0.4))],
            "steps": [["a", "b", "c"][: dice.randint(1, 3)], dice.random() < 0.3],
            "waits": [dice.choice((None, None, 1.0))],
            "parent": [[dice.choices(PLANS[:6], k=1) for _ in range(dice.randint(1, 2))]],
            "spender": [dice.randint(2, 6)],
            "grows": [dice.randint(1, 2)],
        }
        task = self.tasks[name]
        return (task.options(**options) if options else task).job(plan, *args.get(name, []))

    # -- what is done to jobs that are there

    async def _cancel(self) -> None:
        job_id, force = self._dice.choice(self.known), self._dice.random() < 0.2
        answer = await self._app.jobs.acancel(job_id, force=force)
        # One that is ended by force may have been claimed just before, and its handler may begin when that is heard.
        if answer is ActionResult.CANCELLED and not force:
            note("C", job_id)

    async def _signal(self) -> None:
        if self.callers:
            job_id, key = self._dice.choice(self.callers), ids.new()
            await self._surely(lambda: self._app.asignal(job_id, "go", key=key))

    async def _pause(self) -> None:
        await self._app.queues.apause(self._dice.choice(QUEUES))

    async def _resume(self) -> None:
        await self._app.queues.aresume(self._dice.choice(QUEUES))

    async def _retry(self) -> None:
        job_id = self._dice.choice(self.known)
        self._replayed.append(job_id)
        await self._app.jobs.aretry(job_id)

    async def _run_now(self) -> None:
        await self._app.jobs.arun_now(self._dice.choice(self.known))

    async def _schedule(self) -> None:
        overlap = self._dice.choice(("allow", "skip", "cancel_previous"))
        job = self._request("work")
        await self._app.schedules.acreate(ids.new(), job, every=self._dice.choice((1.0, 3.0)), overlap=overlap)

    # -- certainty

    async def _surely(self, call: Callable[[], Awaitable[T]], job_id: str | None = None) -> T | None:
        """Repeat a call while nobody can say whether it was done; the same call, under the same ids."""
        for _ in range(_TRIES):
            try:
                answer = await call()
            except StorageError:
                await asyncio.sleep(0.05)
                continue
            if job_id is not None:
                self._acknowledged(job_id)
            return answer
        return None

    def _acknowledged(self, job_id: str) -> None:
        note("Q", job_id)
        self.known.append(job_id)

    # -- the end

    async def make_peace(self) -> None:
        """Resume what is paused, end what comes again and again, and answer whoever waits."""
        for queue in QUEUES:
            await self._app.queues.aresume(queue)
        for schedule in await self._app.schedules.alist():
            await self._app.schedules.adelete(schedule.name)
        while True:
            for job_id in self.callers:
                try:
                    await self._app.asignal(job_id, "go", key=ids.new())
                except HoldfastError:
                    continue
            await asyncio.sleep(3.0)
            await self._release_replayed()

    async def _release_replayed(self) -> None:
        """A member that is replayed waits for an upstream that did not end as it asks, until that is replayed too."""
        for job_id in self._replayed:
            job = await self._app.jobs.aget(job_id)
            if job.state is JobState.BLOCKED and job.reason == "dependencies":
                await self._app.jobs.acancel(job_id)
