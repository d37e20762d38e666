"""Finds what is searched for. Where jobs must be looked at one by one, at most so many are, and it is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from ...client.jobs import LOOKED_AT as STORE_LOOKS
from ...client.jobs import Jobs
from ...model.answers import JobFilter
from ...model.job import JobRecord
from .meaning import filter_of, is_exact, matches
from .query import Search

LOOKED_AT: Final = 2_000
"""Jobs that are looked at here for one page."""
LOOKED_AT_TO_ACT: Final = 50_000
"""Jobs that are looked at before an action on all that match."""
_STRIDE: Final = 500


@dataclass(frozen=True, slots=True)
class Found:
    """A page of jobs, in the order of the search."""

    jobs: tuple[JobRecord, ...]
    more: str | None
    """The `before` behind which there may be others; None where all was seen."""
    looked: int | None = None
    """How many were looked at where that was not all; None where an index told."""


async def find(jobs: Jobs, search: Search, now: int, *, before: str | None, limit: int, payload: bool) -> Found:
    """The first jobs below `before` that match."""
    wanted = replace(filter_of(search, now), before=before)
    if is_exact(search):
        page = await jobs.asearch(replace(wanted, limit=limit + 1))
        if len(page.jobs) > limit:
            return Found(page.jobs[:limit], wanted.place(page.jobs[limit - 1]))
        return Found(page.jobs, page.next, STORE_LOOKS if page.next is not None else None)
    kept: list[JobRecord] = []
    looked = 0
    async for job, looked, place in _each(jobs, wanted, LOOKED_AT):
        if job is not None and matches(job, search, now, payload=payload):
            kept.append(job)
        if len(kept) == limit or looked >= LOOKED_AT:
            return Found(tuple(kept), place, looked)
    return Found(tuple(kept), None, looked)


async def find_ids(jobs: Jobs, search: Search, now: int, *, payload: bool, most: int) -> tuple[list[str], bool]:
    """The ids of all that match, at most so many, and whether these are really all."""
    found: list[str] = []
    async for job, looked, _ in _each(jobs, filter_of(search, now), LOOKED_AT_TO_ACT):
        if job is not None and matches(job, search, now, payload=payload):
            found.append(job.id)
        if len(found) > most or looked >= LOOKED_AT_TO_ACT:
            return found[:most], False
    return found, True


async def _each(jobs: Jobs, wanted: JobFilter, most: int) -> AsyncIterator[tuple[JobRecord | None, int, str]]:
    """Jobs one by one, each with how many were looked at so far and the place; None where a look found none."""
    before, looked = wanted.before, 0
    while looked < most:
        page = await jobs.asearch(replace(wanted, before=before, limit=_STRIDE))
        for job in page.jobs:
            looked += 1
            yield job, looked, wanted.place(job)
        if page.next is None:
            return
        if len(page.jobs) < _STRIDE:
            looked += STORE_LOOKS
            yield None, looked, page.next
        before = page.next
