"""The peers: where each comes from, what it needs, how its worker is started, and how it is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Needs = Literal["folder", "postgres", "redis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One queue in one configuration."""

    key: str
    module: str
    needs: Needs
    packages: tuple[str, ...] = ()
    """From PyPI, into an environment of its own. None: Holdfast itself."""
    setup: str
    """How it is configured, in words."""
    worker: tuple[str, ...] = ()
    """Its own worker command; else the module's loop."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that configure it."""
    jobs: int = 5_000
    """In the first drain, from which the size of the others follows."""
    slots: int = 100
    """Jobs at once in one worker process."""
    bulk: bool = False
    processes: int = 2
    """As many as can share the store, up to two."""
    python: tuple[int, int] = (3, 11)
    wait: float = 45
    """Seconds until what a killed worker held must be taken up again."""

    @property
    def ours(self) -> bool:
        return not self.packages


_HUEY: Final = ("bin/huey_consumer", "benchmarks.peers.huey_sqlite.huey", "-w", "1", "-k", "thread", "-n", "-q",
                "-d", "0.01", "-m", "0.05")  # fmt: skip
_REDIS: Final = "redis"
_WORKER: Final = ("bin/python", "-m", "holdfast", "worker", "benchmarks.peers.holdfast_app:app",
                  "--log-level", "error", "--concurrency")  # fmt: skip
_CELERY: Final = ("bin/celery", "-A", "benchmarks.peers.celery_redis", "worker", "-P", "prefork", "-c", "1",
                  "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")  # fmt: skip

ENTRIES: Final = [
    Entry(key="holdfast-sqlite", module="holdfast_app", needs="folder", worker=(*_WORKER, "500"), bulk=True,
          setup="async tasks, 500 slots, synchronous=FULL", jobs=20_000),
    Entry(key="holdfast-sqlite-def", module="holdfast_app", needs="folder", worker=(*_WORKER, "250"), bulk=True,
          setup="def tasks in threads, 250 slots, synchronous=FULL", options={"KIND": "def"}, jobs=10_000),
    Entry(key="holdfast-postgres", module="holdfast_app", needs="postgres", worker=(*_WORKER, "500"), bulk=True,
          setup="async tasks, 500 slots", jobs=20_000),
    Entry(key="huey-sqlite-off", module="huey_sqlite", needs="folder", packages=("huey",), worker=_HUEY,
          setup="one thread, polls every 10 ms, synchronous=OFF", options={"FSYNC": "0"}, jobs=20_000, slots=1),
    Entry(key="huey-sqlite-full", module="huey_sqlite", needs="folder", packages=("huey",), worker=_HUEY,
          setup="the same, synchronous=FULL", options={"FSYNC": "1"}, slots=1),
    Entry(key="litequeue", module="litequeue_sqlite", needs="folder", packages=("litequeue",),
          setup="our own loop, sleeps 10 ms when idle, synchronous=NORMAL", slots=1, jobs=2_000),
    Entry(key="persist-queue", module="persist_queue", needs="folder", packages=("persist-queue",),
          setup="SQLiteAckQueue, our own loop, synchronous=FULL; one process only, which is slow to notice jobs"
                " added by other processes",
          slots=1, jobs=2_000, processes=1),
    Entry(key="dbos-sqlite", module="dbos_any", needs="folder", packages=("dbos",),
          setup="async workflows, polls every 50 ms", jobs=1_000),
    Entry(key="dbos-postgres", module="dbos_any", needs="postgres", packages=("dbos", "psycopg[binary]"),
          setup="async workflows, polls every 50 ms, a pool of 20", jobs=1_000),
    Entry(key="pgqueuer", module="pgqueuer_postgres", needs="postgres", bulk=True,
          packages=("pgqueuer[asyncpg]", "psycopg[binary]"), setup="asyncpg, a pool of 8, batches of 200", jobs=10_000),
    Entry(key="chancy", module="chancy_postgres", needs="postgres", packages=("chancy", "psycopg[binary]"), bulk=True,
          setup="async executor, 100 slots, eager polling"),
    Entry(key="oban", module="oban_postgres", needs="postgres", packages=("oban", "psycopg[binary]"), bulk=True,
          setup="one queue with a limit of 100", python=(3, 12)),
    Entry(key="absurd", module="absurd_postgres", needs="postgres", packages=("absurd-sdk", "psycopg[binary]"),
          setup="20 slots, batches of 50, polls every 10 ms", jobs=2_000, slots=20),
    Entry(key="procrastinate", module="procrastinate_postgres", needs="postgres", bulk=True,
          packages=("procrastinate", "psycopg[binary]"), setup="20 slots, deletes succeeded jobs", jobs=1_000,
          slots=20),
    Entry(key="huey-redis", module="huey_redis", needs=_REDIS, packages=("huey", "redis"), slots=2,
          worker=("bin/huey_consumer", "benchmarks.peers.huey_redis.huey", "-w", "2", "-k", "thread", "-n", "-q"),
          setup="two threads, a blocking pop"),
    Entry(key="dramatiq", module="dramatiq_redis", needs=_REDIS, packages=("dramatiq[redis]",), slots=4,
          worker=("bin/dramatiq", "benchmarks.peers.dramatiq_redis", "--processes", "1", "--threads", "4"),
          setup="4 threads, prefetch 200", options={"dramatiq_queue_prefetch": "200"}, wait=90),
    Entry(key="taskiq", module="taskiq_redis_stream", needs=_REDIS, packages=("taskiq", "taskiq-redis"),
          worker=("bin/taskiq", "worker", "benchmarks.peers.taskiq_redis_stream:broker", "--workers", "1",
                  "--max-async-tasks", "100", "--max-prefetch", "100", "--log-level", "ERROR"),
          setup="a stream, 100 concurrent tasks"),
    Entry(key="arq", module="arq_redis", needs=_REDIS, packages=("arq",),
          worker=("bin/arq", "benchmarks.peers.arq_redis.WorkerSettings"),
          setup="100 concurrent jobs, polls every 10 ms"),
    Entry(key="celery", module="celery_redis", needs=_REDIS, packages=("celery[redis]",), slots=1, jobs=2_000,
          worker=_CELERY, setup="prefork with one process, prefetch 128, late acknowledgement", wait=160),
    Entry(key="rq", module="rq_redis", needs=_REDIS, packages=("rq",), slots=1, jobs=1_000, bulk=True,
          worker=("bin/rq", "worker", "-q", "-w", "rq.worker.SimpleWorker", "--maintenance-interval", "10", "default"),
          setup="SimpleWorker, retries lost jobs", wait=180),
]  # fmt: skip


def entry(key: str) -> Entry:
    return next(found for found in ENTRIES if found.key == key)
