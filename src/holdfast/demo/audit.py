"""Checks the outcome of the demo exactly: every job, its state, and the work that was really done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ..model.job import Attempt, JobRecord, JobState
from . import tasks
from .plan import PRIORITIES, TOTAL, Run

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Books:
    """What the store and the ledger say at the end."""

    jobs: Mapping[str, JobRecord]
    lost: Mapping[str, Sequence[Attempt]]
    """Of the jobs that were lost with a worker: the runs that were lost."""
    done: Counter[str]


def faults(run: Run, books: Books) -> list[str]:
    """What is wrong, a sentence each; nothing if all is well."""
    return [*_accounts(run, books), *_states(run, books), *_work(books), *_special(run, books), *_order(run, books)]


def _accounts(run: Run, books: Books) -> Iterator[str]:
    if len(run.expected) != TOTAL:
        yield f"{len(run.expected):,} jobs were enqueued instead of {TOTAL:,}"
    if missing := run.expected.keys() - books.jobs.keys():
        yield f"{len(missing)} jobs are missing from the store: {_some(missing)}"
    if strange := books.jobs.keys() - run.expected.keys():
        yield f"{len(strange)} jobs are in the store that nobody enqueued: {_some(strange)}"


def _states(run: Run, books: Books) -> Iterator[str]:
    wrong = [
        f"{id} ({job.task}) is {job.state} ({job.reason}) instead of {run.expected[id]}"
        for id, job in books.jobs.items()
        if id in run.expected and job.state is not run.expected[id]
    ]
    if wrong:
        yield f"{len(wrong)} jobs ended in the wrong state: {_some(wrong)}"


def _work(books: Books) -> Iterator[str]:
    for id, job in books.jobs.items():
        times = books.done[id]
        if job.state is not JobState.SUCCEEDED:
            if times:
                yield f"job {id} ({job.task}) is {job.state}, but the ledger has its work"
        elif times == 0:
            yield f"job {id} ({job.task}) succeeded, but the ledger does not have its work"
        # A worker killed between the work and its record: the work is done again, and that is all that may happen.
        elif times > 1 + len(books.lost.get(id, ())):
            yield f"the work of job {id} ({job.task}) was done {times} times"
    if unknown := books.done.keys() - books.jobs.keys():
        yield f"the ledger has work of unknown jobs: {_some(unknown)}"


def _special(run: Run, books: Books) -> Iterator[str]:
    if not run.deduped:
        yield "the second enqueue of one dedupe key made a second job"
    doomed = books.jobs.get(run.special["doomed"])
    if doomed and (doomed.attempts, doomed.reason) != (3, "exhausted"):
        yield f"the doomed job failed after {doomed.attempts} attempts ({doomed.reason}), not after 3"
    if run.special["victim"] not in books.lost:
        yield "the job whose worker was killed has no lost run in its history"
    for id, job in books.jobs.items():
        if job.task == tasks.flaky.name and job.attempts < 2:
            yield f"flaky job {id} did not fail first"


def _order(run: Run, books: Books) -> Iterator[str]:
    early = [
        id
        for id, job in books.jobs.items()
        if job.task == tasks.remind.name and id not in books.lost and (job.started_at or 0) < job.not_before
    ]
    if early:
        yield f"{len(early)} delayed jobs started before their time: {_some(early)}"
    starts = [_median_start(run, books, priority) for priority in PRIORITIES]
    if not starts[2] < starts[1] < starts[0]:
        yield "jobs of higher priority did not start before those of lower priority"


def _median_start(run: Run, books: Books, priority: int) -> float:
    plain = (tasks.welcome.name, tasks.resize.name)
    jobs = [books.jobs[id] for id in run.backlog if id in books.jobs]
    return median([job.started_at or 0 for job in jobs if job.task in plain and job.priority == priority] or [0])


def _some(items: Iterable[str]) -> str:
    listed = list(items)
    return ", ".join(listed[:_SHOWN]) + (" …" if len(listed) > _SHOWN else "")
