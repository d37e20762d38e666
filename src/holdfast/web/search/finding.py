"""Runs a search. Where jobs must be checked one by one, their number and the time are limited, and reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...client.jobs import LOOKED_AT as STORE_LOOKS
from ...client.jobs import Jobs
from ...clock import SYSTEM_CLOCK
from ...model.answers import JobFilter
from ...model.jobs import JobRecord
from .aside import aside
from .meaning import filter_of, is_exact, matches
from .query import Search

LOOKED_AT: Final = 2_000
"""The maximum number of jobs checked for one page."""
LOOKED_AT_TO_ACT: Final = 50_000
"""The maximum number of jobs checked before an action on all matches."""
SECONDS: Final = 2.0
"""Seconds after which a page is returned with what was found until then."""
SECONDS_TO_ACT: Final = 20.0
_STRIDE: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A page of jobs, in the order of the search."""

    jobs: tuple[JobRecord, ...]
    more: str | None
    """The `before` of the next page; None if there is none."""
    looked: int | None = None
    """The number of jobs checked, if not all were; None if an index answered."""


async def find(jobs: Jobs, search: Search, now: int, *, before: str | None, limit: int, payload: bool) -> Found:
    """Return the first matching jobs below `before`."""
    wanted = replace(filter_of(search, now), before=before)
    if is_exact(search):
        page = await jobs.asearch(replace(wanted, limit=limit + 1))
        if len(page.jobs) > limit:
            return Found(page.jobs[:limit], wanted.place(page.jobs[limit - 1]))
        return Found(page.jobs, page.next, STORE_LOOKS if page.next is not None else None)
    return await aside(jobs, _find, jobs, search, wanted, now, limit=limit, payload=payload)


def _find(jobs: Jobs, search: Search, wanted: JobFilter, now: int, *, limit: int, payload: bool) -> Found:
    kept: list[JobRecord] = []
    looked, until = 0, SYSTEM_CLOCK.monotonic() + SECONDS
    for job, looked, place in _each(jobs, wanted, LOOKED_AT):
        if job is not None and matches(job, search, now, payload=payload):
            kept.append(job)
        if len(kept) == limit or looked >= LOOKED_AT or SYSTEM_CLOCK.monotonic() >= until:
            return Found(tuple(kept), place, looked)
    return Found(tuple(kept), None, looked)


async def find_ids(jobs: Jobs, search: Search, now: int, *, payload: bool, most: int) -> tuple[list[str], bool]:
    """Return the ids of all matches, up to a limit, and whether these are all."""
    return await aside(jobs, _find_ids, jobs, search, now, payload=payload, most=most)


def _find_ids(jobs: Jobs, search: Search, now: int, *, payload: bool, most: int) -> tuple[list[str], bool]:
    found: list[str] = []
    until = SYSTEM_CLOCK.monotonic() + SECONDS_TO_ACT
    for job, looked, _ in _each(jobs, filter_of(search, now), LOOKED_AT_TO_ACT):
        if job is not None and matches(job, search, now, payload=payload):
            found.append(job.id)
        if len(found) > most or looked >= LOOKED_AT_TO_ACT or SYSTEM_CLOCK.monotonic() >= until:
            return found[:most], False
    return found, True


def _each(jobs: Jobs, wanted: JobFilter, most: int) -> Iterator[tuple[JobRecord | None, int, str]]:
    """Yield jobs one by one, with the number checked so far and the position; None where a batch had no match."""
    before, looked = wanted.before, 0
    while looked < most:
        page = jobs.search(replace(wanted, before=before, limit=_STRIDE))
        for job in page.jobs:
            looked += 1
            yield job, looked, wanted.place(job)
        if page.next is None:
            return
        if len(page.jobs) < _STRIDE:
            looked += STORE_LOOKS
            yield None, looked, page.next
        before = page.next
