"""Durations of the store's operations in this process, by name and outcome.

The duration of an operation is from the call to the answer, with every wait in between: for the lock, for its shared
commit, for a connection.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from time import perf_counter
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from ..errors import HoldfastError, StorageError
from ..model.stats import OPERATION_BOUNDS, OperationStats
from ..rules.stats import quantile
from .forking import renew_after_fork
from .port import ListOp, Op

F = TypeVar("F", bound=Callable[..., Any])
_AnyOp = Op[Any] | ListOp[Any, Any]
_OWN: Final = object()
_MOST_UNCOUNTED: Final = 256


def timed(method: F) -> F:
    """Time a store's method that takes an operation, and perhaps the connection on which it runs."""

    @wraps(method)
    def call(self: Any, op: _AnyOp, connection: object = _OWN) -> Any:
        timings: Timings = self.timings
        site = timings.sites.get(op.name or _key_of(op.run))
        if site is None:
            site, op = timings.learn(op)
        begun = perf_counter()
        try:
            answer = method(self, op) if connection is _OWN else method(self, op, connection)
        except Exception as error:
            timings.note_failure(site, perf_counter() - begun, error)
            raise
        ok = site.ok
        ok.append(perf_counter() - begun)
        if len(ok) > _MOST_UNCOUNTED:
            timings.count(site)
        return answer

    return cast("F", call)


def atimed(method: F) -> F:
    """The async version of `timed`. A cancelled call is not timed: its full duration is unknown."""

    @wraps(method)
    async def call(self: Any, op: _AnyOp, connection: object = _OWN) -> Any:
        timings: Timings = self.timings
        site = timings.sites.get(op.name or _key_of(op.run))
        if site is None:
            site, op = timings.learn(op)
        begun = perf_counter()
        try:
            answer = await (method(self, op) if connection is _OWN else method(self, op, connection))
        except Exception as error:
            timings.note_failure(site, perf_counter() - begun, error)
            raise
        ok = site.ok
        ok.append(perf_counter() - begun)
        if len(ok) > _MOST_UNCOUNTED:
            timings.count(site)
        return answer

    return cast("F", call)


class Timings:
    """Durations of the operations of one store since it was opened here. Safe from any thread."""

    def __init__(self) -> None:
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start at zero in a child: the parent's operations are counted there."""
        self.sites: dict[object, _Site] = {}
        self._unnamed: dict[object, _Site] = {}
        # Reentrant: a signal handler may call the store in the middle of a count.
        self._mutex = threading.RLock()

    def learn(self, op: _AnyOp) -> tuple[_Site, _AnyOp]:
        """Find the name of an operation: its own, or that of the coroutine function which `run` calls when it runs.

        Returns its site, and the operation as it is to be run.
        """
        key = op.name or _key_of(op.run)
        if op.name or isinstance(op, ListOp):
            return self.sites.setdefault(key, _Site(op)), op
        site = self._unnamed.setdefault(key, _Site(op))

        def run(tx: Any) -> Coroutine[Any, Any, Any]:
            coroutine = op.run(tx)
            site.name = _name_of_coroutine(coroutine)
            self.sites[key] = site
            return coroutine

        return site, structs.replace(op, run=run)

    def note_failure(self, site: _Site, seconds: float, error: Exception) -> None:
        """Record an error of the store. A refusal, such as for an unknown job, is an answer like any other."""
        is_refusal = isinstance(error, HoldfastError) and not isinstance(error, StorageError)
        (site.ok if is_refusal else site.failed).append(seconds)
        self.count(site)

    def count(self, site: _Site) -> None:
        with self._mutex:
            site.tallies["ok"].take(site.ok)
            site.tallies["error"].take(site.failed)

    def read(self) -> list[OperationStats]:
        """Return every operation so far, by name and outcome."""
        found: dict[tuple[str, str], _Tally] = {}
        with self._mutex:
            for site in {**self._unnamed, **self.sites}.values():
                self.count(site)
                for outcome, tally in site.tallies.items():
                    found.setdefault((site.name, outcome), _Tally()).merge(tally)
        return [tally.stats(*key) for key, tally in sorted(found.items()) if any(tally.counts)]


class _Site:
    """A place in the code where operations are made: their name, and their durations."""

    __slots__ = ("code", "failed", "name", "ok", "tallies")

    def __init__(self, op: _AnyOp) -> None:
        self.name = op.name or _name_of(op.run)
        self.code: object = getattr(op.run, "__code__", op.run)
        """Kept because the site is found by the id of this object, which must not be reused."""
        # To append takes no lock and a tenth of the time of counting, which is done for many at once.
        self.ok: deque[float] = deque()
        self.failed: deque[float] = deque()
        self.tallies = {"ok": _Tally(), "error": _Tally()}


class _Tally:
    """Durations of one operation with one outcome."""

    __slots__ = ("counts", "max", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(OPERATION_BOUNDS) + 1)
        """One for each bound, and one for durations beyond."""
        self.sum = 0.0
        self.max = 0.0

    def take(self, durations: deque[float]) -> None:
        """Move durations from where they were recorded, except those that come meanwhile."""
        taken: list[float] = []
        with suppress(IndexError):  # a signal handler in this thread took the rest
            taken.extend(durations.popleft() for _ in range(len(durations)))
        for seconds in taken:
            self.counts[bisect_left(OPERATION_BOUNDS, seconds)] += 1
        self.sum += sum(taken)
        self.max = max(self.max, *taken) if taken else self.max

    def merge(self, other: _Tally) -> None:
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        self.max = max(self.max, other.max)

    def stats(self, operation: str, outcome: str) -> OperationStats:
        p50, p95, p99 = (quantile(OPERATION_BOUNDS, self.counts, self.max, share) for share in (0.5, 0.95, 0.99))
        count, buckets = sum(self.counts), tuple(self.counts)
        return OperationStats(operation, outcome, count, self.sum, self.sum / count, p50, p95, p99, self.max, buckets)


def _key_of(run: object) -> int:
    """Return the same key for every operation that is made at one place in the code."""
    return id(getattr(run, "__code__", run))


def _name_of(function: Any) -> str:
    return _name(getattr(function, "__module__", ""), getattr(function, "__qualname__", type(function).__name__))


def _name_of_coroutine(coroutine: Any) -> str:
    return _name(coroutine.cr_frame.f_globals["__name__"], coroutine.__qualname__)


def _name(module: str, qualname: str) -> str:
    """Return the last part of the module, and the outermost function: `workers.register`."""
    function = qualname.partition(".<locals>")[0].rpartition(".")[2].lstrip("_")
    return f"{module.rpartition('.')[2]}.{function}"
