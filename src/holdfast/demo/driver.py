"""Plays the demo: enqueues, watches, cancels, kills, and waits until every job has ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..errors import HoldfastError
from ..ids import token
from ..model.answers import JobFilter
from ..model.job import Attempt, JobRecord, JobState
from . import ledger, plan, tasks
from .audit import Books
from .crew import WorkerProcess
from .plan import Run
from .screen import Screen

_LOOK_EVERY: Final = 0.1
_PATIENCE: Final = 40.0


class DemoFailed(HoldfastError):
    """The demo could not go on."""

    code = "demo_failed"


class Driver:
    """One run. `play` does it all, `books` is what came of it, `close` leaves no process behind."""

    def __init__(self, folder: Path, screen: Screen) -> None:
        self.run: Final = Run(tenant=f"demo-{token()[:8]}")
        self._folder = folder
        self._screen = screen
        self._crew: list[WorkerProcess] = []

    def play(self) -> None:
        tasks.app.migrate()
        self._enqueue_backlog()
        self._dedupe()
        self._start_worker()
        self._cancel_a_running_job()
        self._enqueue_singles()
        self._kill_the_worker()
        self._until(lambda: self._unfinished() == 0, "every job has ended")
        self.run.mended_at = time.monotonic()
        self._stop_worker()

    def books(self) -> Books:
        jobs = {job.id: job for job in self._jobs()}
        # Only a run that did not end in success leaves a trace in the history.
        histories = {id: tasks.app.jobs.attempts(id) for id, job in jobs.items() if job.epoch > 1}
        lost = {id: found for id, history in histories.items() if (found := _lost(history))}
        return Books(jobs, lost, ledger.read(self._folder / "ledger"))

    def close(self) -> None:
        for worker in self._crew:
            if worker.is_alive:
                worker.kill()
        tasks.app.close()

    # -- the acts

    def _enqueue_backlog(self) -> None:
        jobs = tasks.app.enqueue_many(plan.backlog(self.run.tenant))
        self.run.backlog = {self.run.expect(job) for job in jobs}
        doomed = tasks.doomed.options(tenant=self.run.tenant).enqueue()
        self.run.expect(doomed, JobState.FAILED, name="doomed")
        self._screen.say(f"{len(jobs):,} jobs for three queues enqueued in one transaction")

    def _dedupe(self) -> None:
        once = tasks.welcome.options(tenant=self.run.tenant, dedupe_key="welcome:42")
        first, second = once.enqueue(42), once.enqueue(42)
        self.run.expect(first)
        self.run.deduped = first.created and not second.created and first.id == second.id
        self._screen.say(f"one dedupe key enqueued twice: one job, {first.id}")

    def _start_worker(self) -> None:
        worker = WorkerProcess(len(self._crew) + 1, self._folder)
        self._crew.append(worker)
        self._screen.say(f"worker {worker.name} started (pid {worker.pid})", "bold")

    def _cancel_a_running_job(self) -> None:
        job = tasks.endless.options(tenant=self.run.tenant, priority=10).enqueue()
        self.run.expect(job, JobState.CANCELLED, name="endless")
        self._until(lambda: job.refresh().state is JobState.RUNNING, "the endless job runs")
        answer = job.cancel()
        self._screen.say(f"job {job.id} is running; cancel: {answer}")

    def _enqueue_singles(self) -> None:
        self._until(lambda: self._unfinished() == 0, "the backlog is done")
        self._screen.say(f"{plan.SINGLES:,} jobs enqueued one by one, to see how soon each starts")
        for n, request in enumerate(plan.singles(self.run.tenant)):
            self.run.singles.add(self.run.expect(tasks.app.enqueue(request)))
            time.sleep(0.002)
            if n % 100 == 0:
                self._unfinished()

    def _kill_the_worker(self) -> None:
        victim = tasks.victim.options(tenant=self.run.tenant).enqueue()
        self.run.expect(victim, name="victim")
        for job in tasks.app.enqueue_many(plan.during_kill(self.run.tenant)):
            self.run.expect(job)
        self._until(lambda: self._running() >= 10, "the worker is busy")
        self._until(lambda: victim.refresh().state is JobState.RUNNING, "the victim runs")
        worker, running = self._crew[-1], self._running()
        worker.kill()
        self.run.killed_at = time.monotonic()
        self._screen.say(f"kill -9 {worker.pid}, while it ran {running} jobs", "bold red")
        self._start_worker()

    def _stop_worker(self) -> None:
        worker = self._crew[-1]
        code = worker.stop()
        self._screen.say(f"every job has ended; worker {worker.name} stopped with code {code}")
        if code:
            raise DemoFailed(f"worker {worker.name} ended with code {code}:\n{worker.last_words()}")

    # -- watching

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            if time.monotonic() > deadline:
                raise DemoFailed(f"after {_PATIENCE:g} s still not so: {what}. {self._stragglers()}")
            for worker in self._crew[-1:]:
                if not worker.is_alive:
                    raise DemoFailed(f"worker {worker.name} ended by itself:\n{worker.last_words()}")
            time.sleep(_LOOK_EVERY)

    def _unfinished(self) -> int:
        jobs = self._jobs()
        self._screen.show(dict(sorted(Counter(_label(job) for job in jobs).items())))
        return sum(not job.state.is_terminal for job in jobs)

    def _running(self) -> int:
        return sum(job.state is JobState.RUNNING for job in self._jobs())

    def _jobs(self) -> list[JobRecord]:
        return tasks.app.jobs.find(JobFilter(tenant=self.run.tenant, limit=10_000))

    def _stragglers(self) -> str:
        left = [job for job in self._jobs() if not job.state.is_terminal][:5]
        return "; ".join(tasks.app.jobs.explain(job.id).reasons[0].text for job in left)


def _label(job: JobRecord) -> str:
    return "delayed" if job.state is JobState.READY and job.due == 0 else str(job.state)


def _lost(history: list[Attempt]) -> list[Attempt]:
    return [attempt for attempt in history if attempt.outcome == "lost"]
