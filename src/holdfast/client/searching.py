"""Pages of jobs for people who look around: each costs no more than a bounded look, however many jobs there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ..errors import InvalidInput
from ..model.answers import JobFilter, JobPage
from ..storage.ops import insight
from ..storage.port import Op, Store
from . import bulk
from .scope import Scope

LOOKED_AT: Final = 10_000
"""Jobs among which a page is looked for that no index can find."""


class JobSearch:
    """The part of `app.jobs` that finds them page by page."""

    _store: Callable[[], Store]
    _scope: Scope

    def search(self, wanted: JobFilter | None = None) -> JobPage:
        """A page of jobs, newest first, and the `before` of the next one.

        `tag`, `text`, `created_by`, `priority`, `min_attempts`, `reason` and times are looked for among 10,000 jobs at
        a time: a page may be short and yet not be the last. `find` looks on until it is full.
        """
        return self._store().read(self._search(wanted or JobFilter()))

    async def asearch(self, wanted: JobFilter | None = None) -> JobPage:
        return await self._store().aread(self._search(wanted or JobFilter()))

    def _search(self, wanted: JobFilter) -> Op[JobPage]:
        wanted = self._wanted(wanted)
        return Op(lambda tx: insight.search_jobs(tx, wanted, LOOKED_AT))

    def _wanted(self, wanted: JobFilter) -> JobFilter:
        bulk.check_filter(wanted)
        if not 1 <= wanted.limit <= 10_000:
            raise InvalidInput(f"limit is {wanted.limit}; use 1 to 10,000")
        return replace(wanted, tenant=self._scope.within(wanted.tenant))
