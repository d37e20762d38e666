"""One run of `holdfast demo`, and its tasks. Each task notes its work in a ledger outside the store.

The store is checked against that ledger at the end.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from ..app import App
from ..ids import token
from ..model.answers import JobFilter
from ..model.jobs import JobRecord, JobState
from ..rules.retry import RetryPolicy
from ..runtime.running import SUPERVISOR_VARIABLE
from ..tasks.context import Context

TOTAL: Final = 2_000
APP: Final = f"{__name__}:app"
_PATIENCE: Final = 60.0
_SOON: Final = RetryPolicy(kind="fixed", initial=0.2, jitter="none")

app: Final = App()


@app.task(name="demo.quick", queue="demo")
async def quick(ctx: Context, ledger: str) -> None:
    """Take a few milliseconds."""
    await asyncio.sleep(0.005)
    _note(ctx, ledger)


@app.task(name="demo.flaky", queue="demo", retry=_SOON)
async def flaky(ctx: Context, ledger: str) -> None:
    """Fail in the first run."""
    if ctx.attempt == 1:
        raise ConnectionError("the server closed the connection")
    _note(ctx, ledger)


@app.task(name="demo.doomed", queue="demo", retry=_SOON, max_attempts=3)
async def doomed() -> None:
    """Fail in every run."""
    raise ValueError("this address does not exist")


@app.task(name="demo.victim", queue="demo", priority=10)
async def victim(ctx: Context, ledger: str) -> None:
    """Keep the first run going until its worker is killed."""
    if ctx.attempt == 1:
        await asyncio.sleep(3600)
    _note(ctx, ledger)


def _note(ctx: Context, ledger: str) -> None:
    # One short write in append mode: lines of several processes never mix, and outlive a process that is killed.
    with Path(ledger).open("ab", buffering=0) as file:
        file.write(f"{ctx.id}\n".encode())


class Demo:
    """Jobs of a tenant of their own, and two workers, which are stopped on exit."""

    def __init__(self, folder: Path, show: Callable[[str], None]) -> None:
        self._folder = folder
        self._show = show
        self._tenant = f"demo-{token()[:8]}"
        self._workers: list[subprocess.Popen[bytes]] = []
        self._began = time.monotonic()

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait()
        app.close()

    def play(self) -> dict[str, Any]:
        """Run it all; return the figures, with a sentence for each thing that is wrong."""
        app.migrate()
        ledger = self._folder / "ledger"
        first, expected = self._enqueue(str(ledger))
        self._workers = [self._start_worker(f"demo-{n}") for n in (1, 2)]
        self._say(f"two workers started, pids {self._workers[0].pid} and {self._workers[1].pid}")
        self._until(lambda: app.jobs.get(first).owner is not None, "a worker ran the first job")
        self._kill(app.jobs.get(first).owner)
        self._until(self._is_over, "every job had ended")
        jobs = {job.id: job for job in self._jobs()}
        # Only a run that did not end in success leaves a trace in the history.
        runs = ((id, run) for id, job in jobs.items() if job.epoch > 1 for run in app.jobs.attempts(id))
        lost = Counter(id for id, run in runs if run.outcome == "lost")
        self._say(f"{len(lost)} jobs of the killed worker were run by the other")
        faults = list(_faults(expected, jobs, lost, Counter(ledger.read_text().split())))
        for line in faults or ["checked: every job is accounted for, in its right state, with its work done"]:
            self._say(line)
        seconds = round(time.monotonic() - self._began, 2)
        return {
            "jobs": len(jobs), "states": _states(jobs.values()), "rescued": len(lost), "seconds": seconds,
            "faults": faults,
        }  # fmt: skip

    def _enqueue(self, ledger: str) -> tuple[str, dict[str, JobState]]:
        first = victim.options(tenant=self._tenant).enqueue(ledger)
        failing = doomed.options(tenant=self._tenant).enqueue()
        kinds = [quick if n % 20 else flaky for n in range(TOTAL - 2)]
        rest = app.enqueue_many([kind.options(tenant=self._tenant).job(ledger) for kind in kinds])
        self._say(f"{TOTAL:,} jobs enqueued")
        return first.id, {job.id: JobState.SUCCEEDED for job in (first, *rest)} | {failing.id: JobState.FAILED}

    def _start_worker(self, name: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "holdfast", "worker", APP, "--name", name, "--lease", "3", "--grace", "5"]
        # With a supervisor it stops when this process ends, even by a kill.
        environment = os.environ | {"HOLDFAST_INLINE": "0", SUPERVISOR_VARIABLE: str(os.getpid())}
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603

    def _kill(self, worker_id: str | None) -> None:
        pid = next(worker.pid for worker in app.workers.list() if worker.id == worker_id)
        running = len(app.jobs.find(JobFilter(worker=worker_id, state=JobState.RUNNING)))
        next(worker for worker in self._workers if worker.pid == pid).kill()
        self._say(f"kill -9 {pid}, while it ran {running} jobs")

    def _is_over(self) -> bool:
        jobs = self._jobs()
        self._say(", ".join(f"{n:,} {state}" for state, n in _states(jobs).items()))
        return all(job.state.is_terminal for job in jobs)

    def _jobs(self) -> list[JobRecord]:
        return app.jobs.find(JobFilter(tenant=self._tenant, limit=10_000))

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        while not reached():
            have_ended = all(worker.poll() is not None for worker in self._workers)
            if have_ended or time.monotonic() > self._began + _PATIENCE:
                why = "the workers ended" if have_ended else f"{_PATIENCE:g} s passed"
                raise click.ClickException(f"{why} before {what}; their logs stay with --keep")
            time.sleep(0.25)

    def _say(self, text: str) -> None:
        self._show(f"{time.monotonic() - self._began:6.2f} s  {text}")


def _states(jobs: Iterable[JobRecord]) -> dict[str, int]:
    return dict(sorted(Counter(str(job.state) for job in jobs).items()))


def _faults(
    expected: Mapping[str, JobState], jobs: Mapping[str, JobRecord], lost: Counter[str], done: Counter[str]
) -> Iterator[str]:
    for id in expected.keys() ^ jobs.keys():
        yield f"job {id} is missing from the store" if id in expected else f"job {id} was never enqueued"
    for id in expected.keys() & jobs.keys():
        job = jobs[id]
        if job.state is not expected[id]:
            yield f"job {id} ({job.task}) is {job.state} instead of {expected[id]}"
        # A worker that was killed between the work and its record: another does the work again, once for each loss.
        least, most = (1, 1 + lost[id]) if job.state is JobState.SUCCEEDED else (0, 0)
        if not least <= done[id] <= most:
            yield f"the work of job {id} ({job.task}, {job.state}) was done {done[id]} times"
