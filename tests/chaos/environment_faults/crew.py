"""Worker processes over one store, and the jobs that somebody was told are stored."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import holdfast
from tests.acceptance.fleet import Fleet, until
from tests.chaos import ledger
from tests.chaos.check import require
from tests.chaos.facts import Facts, read_facts


class Crew(Fleet):
    """Workers that know the tasks of this folder. What was acknowledged is in the ledger too."""

    app = "tests.chaos.environment_faults.tasks:app"

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        process = self.run_python("-m", "holdfast", "worker", self.app, *options)
        self.workers.append(process)
        return process

    def enqueue(self, task: holdfast.Task[..., Any], *args: Any) -> str:
        """Enqueue a job; its id, once it is noted that it is stored."""
        job = task.enqueue(*args)
        ledger.append(self.ledger, "Q", job.id)
        return job.id

    def seen(self, mark: str) -> set[str]:
        return {line.job for line in self.lines() if line.mark == mark}

    def says(self, text: str) -> int:
        """How often the workers have said so."""
        return self.log.read_text().count(text)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
        until(condition, seconds, what, self.log)

    def wait_for_all(self, app: holdfast.App, seconds: float = 120) -> None:
        """Every job that was acknowledged has ended."""
        self.wait(lambda: not unfinished(app), "every job has ended", seconds)

    def leave(self, app: holdfast.App) -> list[int]:
        """SIGTERM to all; their exit codes. One that has only just been started would be ended by it unprepared."""
        self.wait(lambda: len(_alive(app)) == len(self.workers), "all are there, and none besides")
        return self.stop_all()

    def facts_of(self, app: holdfast.App, **known: Any) -> Facts:
        return read_facts(app.open(), self.lines(), **known)

    def require(self, app: holdfast.App, *, drained: bool = True, **known: Any) -> Facts:
        """Every promise holds; what was read to know it."""
        facts = self.facts_of(app, **known)
        require(facts, drained=drained)
        return facts


def _alive(app: holdfast.App) -> list[str]:
    return [worker.id for worker in app.workers.list() if worker.state == "alive"]


def unfinished(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.state in ("ready", "delayed", "running", "waiting"))


@contextmanager
def crew(store: str, folder: Path, *, lease: float = 2.0, **variables: str) -> Iterator[Crew]:
    it = Crew(store, folder, lease=lease)
    it.environment |= variables
    try:
        yield it
    finally:
        it.end()
