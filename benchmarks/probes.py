"""The measurements of a session: which figures each gives, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import delays, drains, enqueues, hooks, idle, outboxes, tails
from .measure import Latency, Reading, Sizes
from .stores import Bench


@dataclass(frozen=True, slots=True)
class Probe:
    """One measurement. `gives` are the names of the figures in its reading."""

    gives: tuple[str, ...]
    read: Callable[[], Reading]


def probes(bench: Bench, sizes: Sizes) -> list[Probe]:
    """In an order that puts next to each other what is compared."""
    found = [*_enqueues(bench, sizes), *_drains(bench, sizes), *_delays(bench, sizes), *_idle(bench, sizes)]
    return [*found, *_hooks(bench, sizes), *_growth(bench, sizes)]


def _enqueues(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at = bench.name.lower()
    yield _rate(f"{at}.bare.enqueue", lambda: bench.enqueue_one(sizes.singles))
    yield _rate(f"{at}.enqueue.one", lambda: enqueues.one_by_one(bench, sizes.singles))
    yield _rate(f"{at}.enqueue.threads", lambda: enqueues.by_threads(bench, sizes.threaded))
    yield _rate(f"{at}.enqueue.tasks", lambda: enqueues.by_tasks(bench, sizes.awaited))
    yield _rate(f"{at}.bare.bulk", lambda: bench.enqueue_bulk(sizes.bulks))
    yield _rate(f"{at}.bulk", lambda: enqueues.in_bulk(bench, sizes.bulks))


def _drains(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at, count = bench.name.lower(), sizes.drained
    yield _rate(f"{at}.bare.drain", lambda: bench.drain(count))
    yield _rate(f"{at}.drain", lambda: drains.drain(bench, count))
    yield _rate(f"{at}.drain.silent", lambda: drains.drain(bench, count, events="off"))
    yield _rate(f"{at}.drain.two", lambda: drains.drain(bench, count, processes=2))
    if bench.name == "Postgres":
        yield _rate(f"{at}.drain.four", lambda: drains.drain(bench, count, processes=4))
        yield _rate(f"{at}.drain.stale", lambda: drains.drain(bench, count, analysed="empty"))
        yield _rate(f"{at}.drain.analysed", lambda: drains.drain(bench, count, analysed="full"))
    yield _rate(f"{at}.drain.def", lambda: drains.drain(bench, count, kind="def"))
    yield _rate(f"{at}.drain.keyed", lambda: drains.drain(bench, count, kind="keyed"))
    yield _rate(f"{at}.drain.fair", lambda: drains.drain(bench, count, kind="fair"))


def _delays(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at = bench.name.lower()
    yield _latency(f"{at}.within", lambda: delays.within(bench, sizes.samples))
    yield _latency(f"{at}.across", lambda: delays.across(bench, sizes.samples))
    yield _latency(f"{at}.tail.within", lambda: tails.within(bench, sizes.frames))
    yield _latency(f"{at}.tail.across", lambda: tails.across(bench, sizes.frames))


def _idle(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at = f"{bench.name.lower()}.idle"
    yield Probe((f"{at}.cpu", f"{at}.rss"), lambda: _prefixed(at, idle.worker(bench, sizes.window)))
    yield _rate(f"{at}.waiters", lambda: idle.queries_of_waiters(bench, sizes.waiters, sizes.window))
    yield _rate(f"{at}.workers", lambda: idle.queries_of_workers(bench, sizes.workers, sizes.window))


def _hooks(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at = bench.name.lower()
    yield _rate(f"{at}.bare.hooks", lambda: hooks.by_library(sizes.hooks))
    yield _rate(f"{at}.client.hooks", lambda: hooks.by_client(sizes.hooks))
    yield _rate(f"{at}.hooks", lambda: hooks.delivered(bench, sizes.hooks))
    yield _rate(f"{at}.outbox", lambda: outboxes.delivered(bench, sizes.drained))


def _growth(bench: Bench, sizes: Sizes) -> Iterator[Probe]:
    at = bench.name.lower()
    yield _rate(f"{at}.growth.small", lambda: drains.drain(bench, sizes.small))
    yield _rate(f"{at}.growth.history", lambda: drains.drain(bench, sizes.small, finished=sizes.large))

    def backlog() -> Reading:
        found = drains.drain_watching_memory(bench, sizes.large)
        rate = found.pop("rate")
        return {f"{at}.growth.backlog": rate, **_prefixed(f"{at}.memory", found)}

    yield Probe((f"{at}.growth.backlog", f"{at}.memory.early", f"{at}.memory.late"), backlog)


def _rate(name: str, measure: Callable[[], float]) -> Probe:
    return Probe((name,), lambda: {name: measure()})


def _latency(name: str, measure: Callable[[], Latency]) -> Probe:
    def read() -> Reading:
        found = measure()
        return {f"{name}.p50": found.p50, f"{name}.p99": found.p99, name: found.quantiles}

    return Probe((f"{name}.p50", f"{name}.p99"), read)


def _prefixed(prefix: str, reading: Reading) -> Reading:
    return {f"{prefix}.{name}": value for name, value in reading.items()}
