"""Runs claimed jobs: slots, handlers, their deadlines, and stopping those that must end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

from ...clock import SECOND, Clock
from ...model.jobs import Claimed
from ...model.outcomes import Done, Expired, Finish, Outcome, Released
from ...model.webhooks import TASK as DELIVER
from ...model.workers import Owned
from ...tasks.task import Task
from ...telemetry import RunTally
from ..claiming.capacity import SINGLE, Capacity, LoadedAffinities, open_routes, rerouted, routing_of
from ..claiming.outcomes import OutcomeQueue
from ..claiming.routes import ServedRoutes
from ..settings import FENCE_GRACE, WorkerSettings
from ..state import WorkerState
from .batches import Batch, Batches
from .deadlines import Deadline, DeadlineTimer
from .executor import Executor, Finished, is_importable, is_isolated
from .job_log import logger as jobs_log
from .job_log import report
from .runs import Run, Runs, count_runs
from .threads import ThreadPool

logger: Final = logging.getLogger("holdfast.worker")

# Nothing that the handler still does would count: its process is killed without being asked.
_AT_ONCE: Final = frozenset({"timeout", "deadline", "lost", "fenced"})
_NOT_OURS: Final = frozenset({"lost", "fenced"})

# Each is a process of its own, with its own memory. One at a time, a hundred jobs of half a second took 55 s.
_SUSPECTS_AT_ONCE: Final = 4


class BatchedJobs(Protocol):
    """Jobs that this worker owns and that are not run one by one."""

    def has(self, job_id: str, epoch: int) -> bool: ...

    def stop(self, why: str) -> None: ...


class JobRunner:
    """The running jobs of one worker. Everything here happens on the event loop's thread."""

    def __init__(
        self,
        state: WorkerState,
        settings: WorkerSettings,
        tasks: Mapping[str, Task[Any, Any]],
        routes: ServedRoutes,
        outcomes: OutcomeQueue,
        deadlines: DeadlineTimer,
        threads: ThreadPool,
        *,
        clock: Clock,
        executor: Callable[[Finished], Executor],
        batched: BatchedJobs,
        tally: RunTally,
        on_idle: Callable[[], None],
        limit: int | None = None,
        waits: bool = True,
    ) -> None:
        """`limit` is the number of jobs to claim at all; None is without limit. Unless `waits`, no batch waits."""
        self.runs: Final = Runs()
        self.taken = 0
        """The number of jobs that were claimed for it."""
        self._state = state
        self._settings = settings
        self._tasks = tasks
        self._routes = routes
        self._outcomes = outcomes
        self._deadlines = deadlines
        self._threads = threads
        self._clock = clock
        self._batched = batched
        self._tally = tally
        self._on_idle = on_idle
        self._left = limit
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        # A webhook delivery runs no user code: it cannot have crashed a worker.
        self._isolates = all(is_importable(task) for name, task in tasks.items() if task.fn and name != DELIVER)
        self._alone = False
        self._unknown: set[tuple[str, int]] = set()
        self.affinities: Final = LoadedAffinities(settings, clock)
        self.batches: Final = Batches(
            self._begin_batch, self._later, deadlines.forget, self._has_slot_for_batch, waits=waits
        )
        self.executor: Final = executor(self.finished)

    # -- claiming

    def room(self) -> Capacity | None:
        """Return the capacity to claim for now, of the kinds of jobs that there may be."""
        return self._room(self._outcomes.exhausted)

    def _room(self, exhausted: Collection[str]) -> Capacity | None:
        free = self._settings.concurrency - len(self.runs)
        if self.batches.items:
            free += self.batches.items - self.batches.slots
        if self._left is not None:
            free = min(free, self._left)
        state = self._state
        if state.closing or state.fenced or self._alone or self._threads.exhausted:
            return None
        if self._routes.batches:
            return self._room_beside_batches(free, exhausted)
        return self._room_for_singles(free) if free > 0 else None

    def _room_for_singles(self, free: int) -> Capacity | None:
        """Return the capacity. Suspects: a few, each in a process of its own, or one on an idle worker."""
        state = self._state
        routes, parts = open_routes(self._routes, state.shares, (run.job.queue for run in self.runs), free)
        if routes is None:
            return None
        routing = routing_of(self._routes, self.affinities.hold, self.affinities.known)
        if self._isolates:
            return Capacity(free, routes, suspects=self._suspects(free), parts=parts, routing=routing)
        if not state.suspects_wait:
            return Capacity(free, routes, parts=parts, routing=routing)
        return None if self.runs else Capacity(1, routes, suspects=1, alone=True, parts=parts, routing=routing)

    def _room_beside_batches(self, free: int, exhausted: Collection[str]) -> Capacity | None:
        """Return the capacity of a worker with batches, for each kind of jobs that is not exhausted."""
        if self._state.suspects_wait and not self._isolates:
            # They need an idle worker: nothing else is claimed until they have run.
            alone = self._room_for_singles(free) if free > 0 else None
            return None if alone is None else alone.beside(self._routes.encoded)
        single = self._room_for_singles(free) if free > 0 and SINGLE not in exhausted else None
        parts = list(single.parts or ((single.routes, single.n),)) if single else []
        kinds = {SINGLE: single.n} if single else {}
        for name, queues in self._routes.batches.items():
            room = 0 if name in exhausted else self._most(self.batches.room(self._tasks[name], free))
            mine = [(routes, most) for queue, routes in queues.items() if (most := self._share(queue, room)) > 0]
            if mine:
                parts += mine
                kinds[name] = room
        if not parts:
            return None
        routing = routing_of(self._routes, self.affinities.hold, self.affinities.known)
        n, suspects = self._most(sum(most for _, most in parts)), self._suspects(free)
        return Capacity(n, self._routes.encoded, suspects, parts=tuple(parts), routing=routing, kinds=kinds)

    def _suspects(self, free: int) -> int:
        return max(0, min(free, _SUSPECTS_AT_ONCE - self.runs.suspects)) if self._isolates else 0

    def _most(self, n: int) -> int:
        return n if self._left is None else min(n, self._left)

    def _share(self, queue: str, room: int) -> int:
        """Return how many more jobs of a queue may run here, `room` if it has no total."""
        if queue not in self._state.shares:
            return room
        return min(room, self._state.shares[queue] - sum(run.job.queue == queue for run in self.runs))

    def kinds(self) -> set[str]:
        """Return the kinds of jobs that are claimed; see `Capacity.kinds`."""
        return {SINGLE, *self._routes.batches}

    def exhausted(self, room: Capacity, claimed: Sequence[Claimed], parked: int) -> set[str]:
        """Return the kinds of jobs of which a claim for that capacity has found all that there are."""
        return room.exhausted(claimed, parked, self._routes.batch_of)

    def _has_slot_for_batch(self) -> bool:
        return len(self.runs) - self.batches.items + self.batches.running < self._settings.concurrency

    def has_room(self) -> bool:
        """Return True if jobs could be claimed now, if there were any."""
        return self._room(()) is not None

    def others_wait(self, they_do: bool) -> None:
        """Note whether jobs wait whose affinity has no place here now."""
        self.affinities.others_wait = they_do

    def dispatch(self, jobs: Sequence[Claimed], claim: str) -> None:
        """Start the claimed jobs."""
        taken_at = self._clock.monotonic()
        self.taken += len(jobs)
        if self._left is not None:
            self._left -= len(jobs)
        state, outcomes = self._state, self._outcomes
        tasks = {name: self._tasks.get(name) for name in {job.task for job in jobs}}
        for job in jobs:
            task = tasks[job.task]
            if state.closing or state.fenced:
                # The claim was under way when the worker was stopped.
                reason = "shutdown" if state.closing else "fenced"
                outcomes.submit(Finish(job.id, job.epoch, Released(reason, began=False)))
            elif job.time_left is not None and job.time_left <= 0:
                outcomes.submit(Finish(job.id, job.epoch, Expired()))
            elif task is None or task.fn is None:
                self._reroute(job)
            else:
                self._start(Run(state.defaults.fill(job, task), task, claim, taken_at, state.id))
        self.affinities.known = self.affinities.resident
        if self.batches.items:
            self.batches.dispatched()

    def _start(self, run: Run) -> None:
        self.runs.add(run)
        # It runs alone: it would be blamed if another job crashed the worker.
        self._alone = self._alone or (bool(run.job.suspect) and not self._isolates)
        if run.task.task_options.batch is not None:
            run.interrupt = run.abandon = partial(self._stop_unbegun, run)
            self.batches.add(run)
            return
        self._limit(run)
        if (affinity := self._routes.affinities.get(run.job.route)) is not None:
            self.affinities.began(run.job.id, run.job.epoch, affinity)
        self.executor.start(run)

    def _begin_batch(self, batch: Batch) -> None:
        waited = self._clock.monotonic() - batch.taken_at
        for run in batch.open:
            self._limit(run, waited)
        self.executor.start(batch)

    def _stop_unbegun(self, run: Run) -> None:
        """End a job whose batch has not begun."""
        self.executor.drop(run)

    def hand_back_unbegun(self) -> None:
        """Hand back the jobs that wait for their batch: the worker stops."""
        for run in self.batches.unbegun():
            self.stop_run(run, "shutdown")

    def _reroute(self, job: Claimed) -> None:
        """Send a job whose task is unknown here to workers that have the task."""
        logger.warning(
            "job %s needs task %r, which this worker lacks; it is left to workers that have it", job.id, job.task
        )
        self._outcomes.submit(Finish(job.id, job.epoch, rerouted(job, self._routes, self._clock.now())))

    # -- ending

    def finished(self, run: Run, outcome: Outcome | None) -> None:
        """Handle the end of a handler. Only the first report counts."""
        if not self.runs.remove(run):
            return
        if run.batch is not None:
            self.batches.ended(run)
        self._alone = False
        if run.deadline is not None:
            self._deadlines.forget(run.deadline)
            run.deadline = None
        if outcome is not None:
            self._outcomes.finished(run.job, outcome)
            self._note(run, outcome)
        else:
            self._outcomes.wake.set()
        if run.stop.loaded is not None:
            self.affinities.set_loaded(run.stop.loaded)
        # Only a few suspects are claimed at a time, so there may be more.
        if self.affinities.ended(run.job.id, run.job.epoch) or run.job.suspect:
            self._outcomes.request_claim()
        if self.batches.waits_for_slot:
            # Not in the context of the run that has ended.
            self._loop.call_soon(self.batches.start_ready, context=self._context)
        if not self.runs:
            self._on_idle()

    def _note(self, run: Run, outcome: Outcome) -> None:
        """Count, log and report the end of a run."""
        seconds = self._clock.monotonic() - run.taken_at
        count_runs(self._tally, run.job, type(outcome), seconds)
        if type(outcome) is not Done or jobs_log.isEnabledFor(logging.INFO):
            report(run, outcome, seconds, self._clock)
        for observe in self.executor.on_run_end:
            try:
                observe(run, outcome)
            except Exception:
                logger.exception("the end of job %s (%s) could not be reported", run.job.id, run.job.task)

    def stop_run(self, run: Run, reason: str) -> None:
        """Ask a handler to end, and give it up if it has not after the grace period."""
        if run not in self.runs:
            return
        if run.stop.requested:
            if reason in _NOT_OURS:
                self._shorten_grace(run)
            return
        run.stop.request(reason)
        if reason in _AT_ONCE and is_isolated(run):
            run.abandon()
        else:
            run.interrupt()
        if run not in self.runs:
            return
        if run.deadline is not None:
            self._deadlines.forget(run.deadline)
        grace = self._settings.cancel_grace
        if reason == "fenced":
            # Fenced runs must end before the lease does.
            grace = min(grace, self._settings.lease * FENCE_GRACE)
        run.deadline = self._later(grace, lambda: self._give_up(run))

    def _shorten_grace(self, run: Run) -> None:
        """Shorten the grace period of a run already asked to end: its job may belong to another worker before that."""
        if is_isolated(run):
            run.abandon()
        grace = self._settings.lease * FENCE_GRACE
        if run.deadline is not None:
            grace = min(grace, self._deadlines.left(run.deadline))
            self._deadlines.forget(run.deadline)
        run.deadline = self._later(grace, lambda: self._give_up(run))

    def stop_all(self, reason: str) -> None:
        for run in self.runs:
            self.stop_run(run, reason)
        self._batched.stop(reason)

    def _give_up(self, run: Run) -> None:
        if run in self.runs:
            logger.log(
                # Normal when the worker stops.
                logging.WARNING if run.stop.reason == "shutdown" else logging.ERROR,
                "job %s (%s) did not end within %g s of being asked to (%s); its slot is given up",
                run.job.id, run.job.task, self._settings.cancel_grace, run.stop.reason,
            )  # fmt: skip
            self.executor.give_up(run)

    def _limit(self, run: Run, waited: float = 0.0) -> None:
        """Set the deadline of a run that begins `waited` seconds after its claim."""
        timeout, left = run.job.timeout, run.job.time_left
        if left is not None and waited:
            left = max(0, left - round(waited * SECOND))
        if timeout is not None and (left is None or timeout <= left):
            run.deadline = self._later(timeout / SECOND, lambda: self.stop_run(run, "timeout"))
        elif left is not None:
            run.deadline = self._later(left / SECOND, lambda: self.stop_run(run, "deadline"))

    def _later(self, seconds: float, call: Callable[[], None]) -> Deadline:
        return self._deadlines.after(seconds, lambda: self._on_loop(call))

    def _on_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    # -- what the store reports

    def stop_lost_and_cancelled(self, owned: Sequence[Owned], asked_at: float) -> None:
        """Stop runs that this worker no longer owns or that were cancelled."""
        mine = {(item.id, item.epoch) for item in owned}
        for run in self.runs:
            # A run claimed after the query started may be missing from its result.
            if run.taken_at < asked_at and (run.job.id, run.job.epoch) not in mine:
                self.stop_run(run, "lost")
        for item in owned:
            if item.cancel_requested and (known := self.runs.get(item.id, item.epoch)):
                self.stop_run(known, "cancel")

    def reconcile(self, owned: Sequence[Owned], asked_at: float) -> None:
        """Stop lost and cancelled runs, and hand back owned jobs that are unknown here."""
        self.stop_lost_and_cancelled(owned, asked_at)
        unknown = set()
        for item in owned:
            if self.runs.get(item.id, item.epoch) or self._batched.has(item.id, item.epoch):
                continue
            if item.claim not in self._outcomes.in_flight and not self._outcomes.is_recording(item.id, item.epoch):
                unknown.add((item.id, item.epoch))
        # Unknown twice: the first time its outcome may have been recorded since the query started.
        for job_id, epoch in unknown & self._unknown:
            logger.warning("job %s was claimed for this worker but never arrived; handed back", job_id)
            self._outcomes.submit(Finish(job_id, epoch, Released("orphan", began=False)))
        self._unknown = unknown
