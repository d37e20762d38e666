"""Shared by the tests of agent frameworks: a job that is killed at every commit, its stream, and its budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from holdfast import App, Context, current
from holdfast.model.answers import JobFilter
from holdfast.model.jobs import JobState
from holdfast.testing import explore

LIMIT = 100_000


@dataclass
class Reader:
    """Follows the stream of the only job: it reads what is new whenever asked, and drops what is superseded."""

    after: str | None = None
    frames: list[tuple[str | None, int, str]] = field(default_factory=list)
    superseded: int = 0

    def read(self, app: App) -> str:
        (job,) = app.jobs.find()
        page = app.streams.read(job.id, after=self.after)
        self.after = page.cursor
        for frame in page.frames:
            if not frame.control:
                self.frames.append((frame.step, frame.seq, frame.data))
            elif frame.kind == "superseded":
                step, last = frame.data["step"], frame.data["last"]
                self.superseded += 1
                self.frames = [old for old in self.frames if old[0] != step or old[1] > last]
        return "".join(text for _, _, text in self.frames)


@dataclass
class Stores:
    """An app, and where to find another empty store for it."""

    app: App
    fresh: Callable[[], str]


@dataclass
class Kills:
    """An agent's job that is killed at every commit; its fake model and tools say here when they are called."""

    stores: Stores
    calls: Counter[str] = field(default_factory=Counter)
    reader: Reader = field(default_factory=Reader)
    heard: set[str] = field(default_factory=set)
    """The texts that were read: by a reader who followed through the kill, and by one who came at the end."""
    repeated: Counter[str] = field(default_factory=Counter)
    """How often a call was made beyond the first, in the worst of the runs."""
    superseded: int = 0
    """How often the reader was told to drop what it had read."""

    async def said(self) -> None:
        """Let the reader read what the model has just said."""
        await cast(Context, current()).flush()
        self.reader.read(self.stores.app)

    def called(self, what: str) -> None:
        self.calls[what] += 1
        self.reader.read(self.stores.app)

    def survived(self, request: Callable[[], Any], *, models: list[str], text: str) -> None:
        """Kill the job at every commit: each call is repeated if it was in flight, and else never; `text` is read."""

        def start(app: App) -> None:
            self.calls, self.reader = Counter(), Reader()
            app.budgets.set("team", {"tokens": LIMIT})
            app.enqueue(request())

        explored = explore(self.stores.app, start, on_idle=approve, outcome=self._outcome, store=self.stores.fresh)
        assert explored.ends == {"succeeded": 1}
        assert explored.kills > 20
        # A frame that the timer stores moves the commits of that run, so that a kill may miss its call.
        assert set(self.repeated) <= {*models, "find 1", "find 2", "refund 1"}
        assert len(self.repeated) >= 4
        assert self.superseded > 0
        assert self.heard == {text}

    def _outcome(self, app: App) -> object:
        (job,) = app.jobs.find()
        again = {what for what, n in self.calls.items() if n > 1}
        # The model asks for both at once.
        in_flight = len(again) <= 1 or again == {"find 1", "find 2"}
        assert in_flight and max(self.calls.values()) <= 2, f"more than the calls in flight were repeated: {self.calls}"
        self.repeated |= Counter({what: n - 1 for what, n in self.calls.items()})
        self.superseded += self.reader.superseded
        self.heard |= {self.reader.read(app), Reader().read(app)}
        line = app.budgets.get("team")["tokens"]
        return job.state, job.result, line.spent, line.reserved


def approve(app: App) -> None:
    """Say yes to everything that suspended jobs wait for."""
    for one in app.signals.pending():
        app.signal(one.job_id, one.name, True)


def within_budget(app: App, jobs: list[Any], seen: list[Any]) -> None:
    """Run jobs at once in a budget that is enough for some of them; then raise it, so that all succeed.

    `seen` are the lines of the budget that the model found when it was called.
    """
    app.enqueue_many(jobs)
    app.drain(concurrency=len(jobs))
    found = app.jobs.find(JobFilter(state=JobState.BLOCKED))
    assert 0 < len(found) < len(jobs)
    assert {job.reason for job in found} == {"budget_exhausted"}
    line = app.budgets.get("team")["tokens"]
    assert line.spent <= (line.limit or 0)
    assert max(line.reserved for line in seen) > 0
    assert all(line.spent + line.reserved <= line.limit for line in seen)
    app.budgets.raise_("team", {"tokens": LIMIT})
    assert app.drain(concurrency=len(jobs)).succeeded == len(found)
