"""A process that enqueues, and may be killed at any moment: what it was told is stored, it notes; nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress

import holdfast
from holdfast.ids import token
from tests.chaos.storm import notes

_KINDS = (
    "plain", "plain", "on_thread", "limited", "flaky", "narrate", "narrate_on_thread", "in_steps", "in_steps_on_thread",
)  # fmt: skip
_KEYS = 40
_BATCH = 10
_TRIES = 5


class Producer:
    """So many jobs of every kind and in every way, by the dice."""

    def __init__(self, app: holdfast.App, seed: int) -> None:
        self._app = app
        self._dice = random.Random(seed)
        self._known: list[str] = []
        self._ways: tuple[tuple[int, Callable[[], Iterable[str]]], ...] = (
            (6, self._one),
            (3, self._many),
            (2, self._deduped),
            (2, self._diamond),
            (1, self._delayed),
        )

    def run(self, jobs: int) -> None:
        """Until so many were acknowledged. What the store could not take is not tried again: it may be there."""
        made, failures = 0, 0
        while made < jobs:
            try:
                made += self._act()
            except holdfast.errors.StorageError:
                failures += 1
                if failures > 20:
                    return

    def _act(self) -> int:
        way = self._dice.choices([way for _, way in self._ways], [weight for weight, _ in self._ways])[0]
        ids = list(way())
        for job_id in ids:
            notes.write("Q", job_id)
        self._known += ids
        if self._dice.random() < 0.15:
            self._cancel(self._dice.choice(self._known[-30:]))
        return len(ids)

    def _cancel(self, job_id: str) -> None:
        answer = self._app.jobs.cancel(job_id)
        if answer == "cancelled":
            notes.write("C", job_id)
        elif answer == "cancel_requested":
            notes.write("asked", job_id)

    def _one(self) -> Iterable[str]:
        """Under an id of its own: after an unknown outcome it is said again, and must not be there twice."""
        kind, job_id = self._dice.choice(_KINDS), token()
        seconds = self._seconds(kind)
        for _ in range(_TRIES):
            with suppress(holdfast.OutcomeUnknown):
                yield self._app.tasks[kind].options(id=job_id).enqueue(seconds).id
                return

    def _many(self) -> Iterable[str]:
        return [job.id for job in self._app.enqueue_many([self._request() for _ in range(_BATCH)])]

    def _deduped(self) -> Iterable[str]:
        key = f"k{self._dice.randrange(_KEYS)}"
        yield self._app.tasks["plain"].options(dedupe_key=key).enqueue(self._seconds()).id

    def _delayed(self) -> Iterable[str]:
        yield self._app.tasks["plain"].options(delay=self._dice.uniform(0.1, 2.0)).enqueue(self._seconds()).id

    def _diamond(self) -> Iterable[str]:
        task = self._app.tasks["member"]
        with self._app.flow("diamond") as flow:
            first = flow.add(task.job(self._seconds()))
            sides = [flow.add(task.job(self._seconds(), (first.output,))) for _ in range(2)]
            last = flow.add(task.job(self._seconds(), tuple(side.output for side in sides)))
        return [first.id, *(side.id for side in sides), last.id]

    def _request(self) -> holdfast.tasks.JobRequest[object]:
        kind = self._dice.choice(_KINDS)
        return self._app.tasks[kind].job(self._seconds(kind))

    def _seconds(self, kind: str = "") -> float:
        """Short mostly; now and then long enough to be met by a kill for certain. What zombies go on with is longer."""
        times = 2.0 if kind.endswith("_on_thread") else 1.0
        return round(times * self._dice.choice((0.002, 0.01, 0.03, 0.1, 0.3)) * self._dice.uniform(0.5, 1.5), 4)
