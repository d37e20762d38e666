"""Removes expired data in small steps, and keeps queues within their caps. One worker does it; two would do no harm.

For every retention period, a cursor walks through jobs by the time they ended and checks each once. Jobs that had to
stay, such as one that a dedupe window still names, are checked again when the walk starts over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ...rules.retention import EVICTED, Retention
from ...storage.ops import access, events
from ...storage.ops.jobs import counting
from ...storage.ops.jobs import retention as ops
from ...storage.ops.limits import lanes
from ...storage.ops.routing import routes
from ...storage.port import Op, Row, Store
from ..settings import WorkerSettings

logger: Final = logging.getLogger("holdfast.worker")

_WALKS_UNTIL_RESTART: Final = 500

Span = tuple[str, int]
"""The kind that is pruned, jobs or results, and its retention period."""
PAUSE: Final = 0.01
"""Seconds between two transactions, so that claims and finishes go first."""


class Pruner:
    """`leads` says whether this worker prunes; `rest` pauses, so that other transactions can run."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        leads: Callable[[], bool],
        rest: Callable[[float], Awaitable[None]],
    ) -> None:
        self._store = store
        self._base = settings.retention
        self._keep_events = settings.kept_events
        self._leads = leads
        self._rest = rest
        self._cursors: dict[Span, int] = {}
        self._known: Retention | None = None
        self._walks = 0
        self._caps = QueueCaps(store, leads, rest)

    async def run_once(self) -> None:
        """Remove everything that has expired. Does nothing where another worker leads."""
        if not self._leads():
            return
        rules = await self._store.aread(Op(lambda tx: ops.retention(tx, self._base)))
        self._start_over(rules)
        pruned = 0
        # A job deleted as soon as it has ended would be missing in its minute's statistics.
        uncounted = await self._store.aread(Op(ops.uncounted, slow=True))
        for kept in rules.spans:
            pruned += await self._walk(("jobs", kept), rules, at_least=uncounted)
        for kept in sorted(set(rules.results.values())):
            await self._walk(("results", kept), rules)
        pruned += await self._caps.enforce(rules.caps)
        # Read first: a needless write would take the lock of a SQLite file from other writers.
        windows, records = await self._store.aread(
            Op(lambda tx: ops.what_is_over(tx, rules.audit), single=True, slow=True)
        )
        if windows:
            await self._until_none(ops.prune_windows)
        if records:
            await self._until_none(lambda tx: ops.prune_audit(tx, rules.audit))
        if await self._store.aread(Op(ops.flows_are_over, single=True)):
            await self._until_none(ops.prune_flows)
        if await self._store.aread(Op(lambda tx: access.is_over(tx, rules.audit), single=True)):
            await self._until_none(lambda tx: access.prune(tx, rules.audit))
        if self._walks == 0:
            await self._names()
        await self._events()
        await self._shrink()
        await self._tally()
        if pruned:
            logger.info("%d finished jobs were kept long enough and are deleted", pruned)

    def _start_over(self, rules: Retention) -> None:
        """Restart the walks if the rules have changed, and occasionally for jobs that had to stay."""
        self._walks += 1
        if rules != self._known or self._walks >= _WALKS_UNTIL_RESTART:
            self._known, self._walks = rules, 0
            self._cursors.clear()
            self._caps.start_over()

    async def _walk(self, span: Span, rules: Retention, *, at_least: int = 0) -> int:
        what, kept = span
        age = max(kept, at_least)
        pruned = skip = 0
        while self._leads():
            after = self._cursors.get(span, 0)
            page = await self._page(after, age, skip)
            whole, upto = _whole(page)
            ids = [id for id, queue, state, _ in whole if _is_due(what, kept, queue, state, rules)]
            deleted = await self._delete(what, ids, age)
            pruned += deleted
            if _is_one_instant(page):
                # More jobs may have ended at this instant than the page holds: skip those that stay, and no more.
                skip += len(page) - (deleted if what == "jobs" else 0)
                continue
            self._cursors[span], skip = max(after, upto), 0
            if len(page) < ops.PAGE:
                break
        return pruned

    async def _page(self, after: int, kept: int, skip: int) -> list[Row]:
        return await self._store.aread(Op(lambda tx: ops.page_of_ended(tx, after, kept, skip), single=True, slow=True))

    async def _delete(self, what: str, ids: Sequence[str], kept: int) -> int:
        prune = ops.prune_jobs if what == "jobs" else ops.prune_results
        time = asyncio.get_running_loop().time
        pruned = 0
        for batch in _batches(ids):
            op = Op(lambda tx, batch=batch: prune(tx, batch, kept), slow=True, name="prune")  # type: ignore[misc]
            start = time()
            pruned += await self._store.awrite(op)
            # Pause at least as long as the deletion took: a busy store is free for others half of the time.
            await self._rest(max(PAUSE, time() - start))
        return pruned

    async def _names(self) -> None:
        """Remove lanes and routes of keys and requirements that no job has any more."""
        usage = await self._store.aread(Op(routes.usage))
        if usage.left or usage.used or usage.over:
            await self._store.awrite(Op(lambda tx: routes.note_usage(tx, usage)))
        after = ""
        while self._leads():
            unused = await self._store.aread(Op(lambda tx, a=after: lanes.unused_lanes(tx, a, ops.BATCH)))  # type: ignore[misc]
            if not unused:
                break
            await self._store.awrite(Op(lambda tx, keys=unused: lanes.delete_unused(tx, keys)))  # type: ignore[misc]
            after = unused[-1]
            await self._rest(PAUSE)

    async def _events(self) -> None:
        """Move pending events into the event log, and remove those older than their retention."""
        while self._leads() and await self._store.aread(Op(events.waits, single=True)):
            if not await self._store.awrite(Op(events.relay)):
                # Another worker is moving them.
                break
        kept = self._keep_events
        old = Op(lambda tx: events.old(tx, kept), single=True)
        while self._leads() and await self._store.aread(old) is not None:
            await self._store.awrite(Op(lambda tx: events.prune(tx, kept), slow=True))
            await self._rest(PAUSE)

    async def _tally(self) -> None:
        """Count finished jobs; all of them when a walk starts over."""
        recount = self._walks == 0
        tallies = await self._store.aread(Op(lambda tx: counting.measure(tx, recount=recount), slow=True))
        if tallies:
            await self._store.awrite(Op(lambda tx: counting.write_tallies(tx, tallies)))

    async def _shrink(self) -> None:
        while self._leads() and await self._store.aread(Op(ops.wastes_space, single=True)):
            await self._store.awrite(Op(ops.give_back_space))
            await self._rest(PAUSE)

    async def _until_none(self, prune: Callable[..., Awaitable[int]]) -> None:
        while self._leads() and await self._store.awrite(Op(prune, slow=True)) >= ops.BATCH:  # type: ignore[arg-type]
            await self._rest(PAUSE)


def _is_due(what: str, kept: int, queue: str, state: str, rules: Retention) -> bool:
    if what == "jobs":
        return rules.kept(queue, state) == kept
    return state == "succeeded" and rules.results.get(queue) == kept < rules.kept(queue, state)


def _whole(page: Sequence[Row]) -> tuple[Sequence[Row], int]:
    """Return the part of a page after which the walk can continue: jobs of one instant may span two pages."""
    if not page:
        return page, 0
    last = page[-1][3]
    if len(page) < ops.PAGE or page[0][3] == last:
        return page, last
    before = [row for row in page if row[3] < last]
    return before, before[-1][3]


def _is_one_instant(page: Sequence[Row]) -> bool:
    return len(page) == ops.PAGE and page[0][3] == page[-1][3]


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + ops.BATCH] for start in range(0, len(ids), ops.BATCH))


class QueueCaps:
    """Deletes finished jobs over the caps of their queues, the least needed states first, then the oldest."""

    def __init__(self, store: Store, leads: Callable[[], bool], rest: Callable[[float], Awaitable[None]]) -> None:
        self._store = store
        self._leads = leads
        self._rest = rest
        self._cursors: dict[tuple[str, str], int] = {}
        """By queue and state: jobs that ended before this are deleted, or had to stay."""

    def start_over(self) -> None:
        """Check everything again."""
        self._cursors.clear()

    async def enforce(self, caps: Mapping[str, int]) -> int:
        """Delete the jobs over the caps; return their number."""
        evicted = 0
        for queue, cap in sorted(caps.items()):
            over = partial(ops.over_cap, queue=queue, cap=cap)
            excess = await self._store.aread(Op(over, slow=True))
            for state in EVICTED:
                if excess > 0:
                    gone = await self._evict(queue, str(state), excess)
                    excess, evicted = excess - gone, evicted + gone
        return evicted

    async def _evict(self, queue: str, state: str, excess: int) -> int:
        gone = 0
        while gone < excess and self._leads():
            after = self._cursors.get((queue, state), 0)
            left = excess - gone
            evicted = partial(ops.page_of_evicted, queue=queue, state=state, after=after, n=left)
            page = await self._store.aread(Op(evicted, slow=True))
            if not page:
                break
            ids = [row[0] for row in page]
            deleted = await self._store.awrite(Op(lambda tx, ids=ids: ops.prune_jobs(tx, ids, 0), slow=True))  # type: ignore[misc]
            gone += deleted
            # If none could be deleted, such as jobs that a dedupe window names, the next page starts after them.
            self._cursors[queue, state] = page[-1][1] + (1 if deleted == 0 else 0)
            await self._rest(PAUSE)
        return gone
