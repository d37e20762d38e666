"""The table of figures to reach: what is measured, against what, what must be reached and what is aimed at.

A goal names two figures of the session; its value is their ratio, run by run, or the figure itself where there is
nothing to compare it with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .measure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One line of the table."""

    ours: str
    against: str = ""
    store: str
    work: str
    beside: str = ""
    """What it is compared with, in words."""
    must: float | None = None
    aim: float | None = None
    unit: str = "×"
    fewer: bool = False
    """Whether less is better."""

    @property
    def key(self) -> str:
        return f"{self.ours} / {self.against}" if self.against else self.ours

    def value(self, figures: Mapping[str, Figure]) -> Figure | None:
        """The ratios of the pairs of each run, or the figure itself; None if it was not measured."""
        ours = figures.get(self.ours)
        if ours is None or not self.against:
            return ours
        against = figures.get(self.against)
        if against is None:
            return None
        return Figure([a / b for a, b in zip(ours.values, against.values, strict=False)])

    def reaches(self, value: float, limit: float | None) -> bool | None:
        if limit is None:
            return None
        return value <= limit if self.fewer else value >= limit


def goals() -> list[Goal]:
    return [*_sqlite(), *_postgres()]


def _sqlite() -> Iterator[Goal]:
    store, bare = "SQLite", "the bare loop"
    huey = [("off", 1.5, 2.5, "huey, synchronous=OFF"), ("full", 6.0, None, "huey, synchronous=FULL")]
    yield Goal(store=store, work="drain, async no-op", ours="sqlite.drain", against="sqlite.bare.drain", beside=bare,
               must=0.5, aim=0.75)  # fmt: skip
    for mode, must, aim, words in huey:
        yield Goal(store=store, work="drain, async no-op", ours="contest.sqlite.async", against=f"contest.huey.{mode}",
                   beside=words, must=must, aim=aim)  # fmt: skip
    yield Goal(store=store, work="drain, def tasks in threads", ours="contest.sqlite.def", against="contest.huey.off",
               beside="huey, synchronous=OFF", must=1, aim=1.5)  # fmt: skip
    yield Goal(store=store, work="drain, two processes", ours="sqlite.drain.two", against="sqlite.drain",
               beside="one process", must=1, aim=1.3)  # fmt: skip
    for name, work, must, aim in _ENQUEUES:
        yield Goal(store=store, work=work, ours=f"sqlite.enqueue.{name}", against="sqlite.bare.enqueue",
                   beside="the bare loop, one thread", must=must, aim=aim)  # fmt: skip
    yield Goal(store=store, work="bulk enqueue of 1,000", ours="sqlite.bulk", against="sqlite.bare.bulk",
               beside="bare executemany", must=0.3, aim=0.5)  # fmt: skip
    yield from _delays("SQLite", "within", "idle latency, in process", (1, 0.5), (3, 2))
    yield from _delays("SQLite", "across", "idle latency, across processes", (3, 1), (8, 4))
    yield from _standing("SQLite")
    yield Goal(store=store, work="queries of 1,000 idle waiters", ours="sqlite.idle.waiters", must=100, unit="/s",
               fewer=True)  # fmt: skip


def _postgres() -> Iterator[Goal]:
    store = "Postgres"
    yield Goal(store=store, work="drain, async no-op", ours="contest.postgres.async", against="contest.pgqueuer",
               beside="PgQueuer", must=1.2, aim=2)  # fmt: skip
    yield Goal(store=store, work="drain, async no-op", ours="postgres.drain", against="postgres.bare.drain",
               beside="the bare loop")  # fmt: skip
    yield Goal(store=store, work="drain, two processes", ours="postgres.drain.two", against="postgres.drain",
               beside="one process", must=1.6)  # fmt: skip
    yield Goal(store=store, work="drain, four processes", ours="postgres.drain.four", against="postgres.drain",
               beside="one process", must=2)  # fmt: skip
    yield Goal(store=store, work="drain, statistics from an empty table", ours="postgres.drain.stale",
               against="postgres.drain", beside="a table without statistics")  # fmt: skip
    yield Goal(store=store, work="drain of an analysed table", ours="postgres.drain.analysed", against="postgres.drain",
               beside="a table without statistics")  # fmt: skip
    yield Goal(store=store, work="enqueue, one by one", ours="postgres.enqueue.one", against="postgres.bare.enqueue",
               beside="the bare loop", must=0.8)  # fmt: skip
    yield Goal(store=store, work="enqueue, 200 async tasks", ours="postgres.enqueue.tasks",
               against="postgres.bare.enqueue", beside="the bare loop, one thread", must=8)  # fmt: skip
    yield Goal(store=store, work="bulk enqueue of 1,000", ours="contest.postgres.bulk", against="contest.pgqueuer.bulk",
               beside="PgQueuer", must=1, aim=2)  # fmt: skip
    yield Goal(store=store, work="bulk enqueue of 1,000", ours="postgres.bulk", against="postgres.bare.bulk",
               beside="one bare statement")  # fmt: skip
    yield from _delays("Postgres", "across", "idle latency, across processes", (3, 1.5), (8, 4))
    yield from _standing("Postgres")


_ENQUEUES: Final = [
    ("one", "enqueue, one by one", 0.65, 0.85),
    ("threads", "enqueue, 16 threads", 2, 2.5),
    ("tasks", "enqueue, 200 async tasks", 8, 10),
]


def _delays(store: str, where: str, work: str, p50: tuple[float, float], p99: tuple[float, float]) -> Iterator[Goal]:
    for name, (must, aim) in (("p50", p50), ("p99", p99)):
        yield Goal(store=store, work=f"{work}, {name}", ours=f"{store.lower()}.{where}.{name}", must=must, aim=aim,
                   unit="ms", fewer=True)  # fmt: skip


def _standing(store: str) -> Iterator[Goal]:
    """What holds for both stores alike."""
    at = store.lower()
    yield Goal(store=store, work="idle worker, CPU", ours=f"{at}.idle.cpu", must=1, aim=0.3, unit="%", fewer=True)
    yield Goal(store=store, work="idle worker, memory", ours=f"{at}.idle.rss", must=60, aim=45, unit="MB", fewer=True)
    for name, work in (("backlog", "drain of a large backlog"), ("history", "drain with a large history")):
        yield Goal(store=store, work=work, ours=f"{at}.growth.{name}", against=f"{at}.growth.small",
                   beside="a small store", must=0.9)  # fmt: skip
    yield Goal(store=store, work="worker memory at the end of a large drain", ours=f"{at}.memory.late",
               against=f"{at}.memory.early", beside="after a tenth of it", must=1.1, fewer=True)  # fmt: skip
    yield Goal(store=store, work="queries of 50 idle workers", ours=f"{at}.idle.workers", must=100, unit="/s",
               fewer=True)  # fmt: skip
    yield Goal(store=store, work="drain, outcome events", ours=f"{at}.drain", against=f"{at}.drain.silent",
               beside="without", must=0.85, aim=0.92)  # fmt: skip
    for where, words, must, aim in (("within", "in process", 50, 35), ("across", "across processes", 100, 70)):
        yield Goal(store=store, work=f"tail of 2,000 frames/s, ten readers, {words}, p99",
                   ours=f"{at}.tail.{where}.p99", must=must, aim=aim, unit="ms", fewer=True)  # fmt: skip
    yield Goal(store=store, work="signed webhooks, one worker", ours=f"{at}.hooks", against=f"{at}.bare.hooks",
               beside="the HTTP library alone", must=0.6, aim=0.8)  # fmt: skip
    yield Goal(store=store, work="signed webhooks, one worker", ours=f"{at}.hooks", against=f"{at}.client.hooks",
               beside="Holdfast's HTTP client alone")  # fmt: skip
    yield Goal(store=store, work="outbox events in batches of 64, one relay", ours=f"{at}.outbox", must=10_000,
               unit="/s")  # fmt: skip
    for name, work, must, aim in _LIMITS:
        yield Goal(store=store, work=work, ours=f"{at}.drain.{name}", against=f"{at}.drain", beside="without",
                   must=must, aim=aim)  # fmt: skip


_LIMITS: Final = [
    ("keyed", "drain, 1,000 concurrency keys, no contention", 0.6, 0.72),
    ("fair", "drain, fair scheduling over 100 tenants", 0.4, 0.5),
]
