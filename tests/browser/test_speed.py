"""How long the server takes for each page of a store with 100,000 live and 1,000,000 finished jobs."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
import pytest

import holdfast
from holdfast.model import JobFilter
from holdfast.model.jobs import JobState
from holdfast.storage.ops.stats import errors
from tests.postgres_server import Databases, url_of
from tests.web.web_kit import Site

from .big import big_app, multiply
from .places import PLACES
from .shop import apart

ALLOWED = 0.3
SEARCHES = (
    "state:succeeded",
    "state:ready",
    "state:ready reason:retry",
    "state:cancelled",
    "state:failed since:1h",
    "state:running took:>1m",
    "state:succeeded tag:nothing",
    "queue:shard-3",
    "queue:shard-3 state:failed",
    "task:mail.send.3",
    "tenant:tenant-7",
    "tag:big",
    "tag:nothing",
    "attempts:>2",
    "took:>1m",
    "user5@example.com",
    "nothing-like-it",
)
MORE = ("/queues/shard-3", "/queues/shard-3?window=4h", "/queues?sort=failed", "/errors?window=24h", "/?window=15m")


@pytest.fixture(scope="module")
def sqlite_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[holdfast.App]:
    app = apart(lambda: fill_sqlite(str(tmp_path_factory.mktemp("big") / "big.db")))
    yield app
    app.close()


def fill_sqlite(path: str) -> holdfast.App:
    app = big_app(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous = off")

    def load(rows: Iterable[tuple[int, str, int]]) -> None:
        connection.execute("begin")
        connection.executemany("insert into holdfast_seed values (?, ?, ?)", rows)
        connection.execute("commit")

    multiply(app, connection.execute, load)
    connection.close()
    return app


@pytest.fixture(scope="module")
def postgres_app(postgres_databases: Databases, postgres_template: str) -> Iterator[holdfast.App]:
    dsn = postgres_databases.create(postgres_template)
    app = apart(lambda: fill_postgres(dsn))
    yield app
    app.close()
    postgres_databases.drop(dsn)


def fill_postgres(dsn: str) -> holdfast.App:
    app = big_app(url_of(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:

        def load(rows: Iterable[tuple[int, str, int]]) -> None:
            with connection.cursor() as cursor, cursor.copy("copy holdfast_seed from stdin") as copy:
                for row in rows:
                    copy.write_row(row)

        multiply(app, lambda text: connection.execute(text.encode()), load)
        connection.execute("vacuum analyze")
    return app


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_every_page_is_quick_on_a_big_sqlite_store(sqlite_app: holdfast.App) -> None:
    assert apart(lambda: slow(sqlite_app, in_process=True)) == []


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_every_page_is_quick_on_a_big_postgres_store(postgres_app: holdfast.App) -> None:
    assert apart(lambda: slow(postgres_app, in_process=False)) == []


@dataclass(frozen=True, slots=True)
class Took:
    """The best of five calls, in seconds: by the clock, and of this process's processors."""

    wall: float
    busy: float

    def of(self, place: str) -> str:
        return f"{1000 * self.wall:6.0f} ms  {1000 * self.busy:6.0f} ms busy  {place}"


def slow(app: holdfast.App, *, in_process: bool) -> list[str]:
    """The pages that take too long. All are printed, the slowest first.

    A database in this process only computes, so that time which others had the processors does not count.
    """
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        took = {place: measure(site, place.format(**of(app))) for place in places()}
        site.close()
    ranked = sorted(took, key=lambda place: -took[place].wall)
    print("", *(took[place].of(place) for place in ranked), sep="\n")
    counts = {place: min(one.wall, one.busy) if in_process else one.wall for place, one in took.items()}
    return [took[place].of(place) for place in ranked if counts[place] > ALLOWED]


def measure(site: Site, address: str) -> Took:
    """From the request to the last byte of the answer, after one call to warm up."""
    wall, busy = list[float](), list[float]()
    for _ in range(6):
        start, work = time.perf_counter(), time.process_time()
        answer = site.call("GET", address)
        wall.append(time.perf_counter() - start)
        busy.append(time.process_time() - work)
        assert answer.status_code < 500, address
    return Took(min(wall[1:]), min(busy[1:]))


def places() -> list[str]:
    searches = [search(line) for line in SEARCHES]
    return [*(place for places in PLACES.values() for place in places), *MORE, *searches]


def search(line: str) -> str:
    return f"/jobs?q={quote(line)}"


def of(app: holdfast.App) -> dict[str, str]:
    """One of each thing, among very many."""

    def job(state: str) -> str:
        return app.jobs.find(JobFilter(state=JobState(state), limit=1))[0].id

    flows = [flow.id for flow in app.flows.find()]
    return {
        "finished": job("succeeded"),
        "waiting": job("suspended"),
        "failed": job("failed"),
        "film": job("cancelled"),
        "delayed": job("ready"),
        "fingerprint": app.errors.list()[0].fingerprint,
        "flow": flows[0],
        "old_flow": flows[-1],
        "endpoint": app.webhooks.list()[0].id,
    }


@pytest.fixture(scope="module", autouse=True)
def counted_at_once() -> Iterator[None]:
    """Errors are grouped without waiting for their neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "_LAG", 0)
        yield
