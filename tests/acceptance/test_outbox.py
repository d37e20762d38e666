"""Events through a server that goes away, limits and refuses, by relays that are killed: each valid one arrives."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.fleet import ROOT, Fleet, fleet, until

pytestmark = pytest.mark.thorough

MODULE = "tests.acceptance.outbox_jobs:app"


class Server:
    """The receiver as a process that can be killed and started again at the same place."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "received"
        self.ledger.touch()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.acceptance.outbox_server", str(self.port), str(self.ledger)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def received(self) -> list[tuple[str, int]]:
        lines = self.ledger.read_text().splitlines()
        return [(id, int(n)) for id, n in (line.split() for line in lines)]


@contextmanager
def relays(store: str, folder: Path, url: str, count: int) -> Iterator[Fleet]:
    with fleet(store, folder) as it:
        it.environment["HOLDFAST_RECEIVER"] = url
        for _ in range(count):
            start(it)
        yield it


def start(workers: Fleet) -> None:
    workers.workers.append(workers.run_python("-m", "holdfast", "worker", MODULE))


def kill(workers: Fleet, index: int) -> None:
    workers.workers[index].kill()
    workers.workers[index].wait()
    start(workers)
    workers.workers[index] = workers.workers.pop()


@pytest.mark.timeout(400)
def test_a_few_events_arrive_whatever_becomes_of_server_and_relays(store_url: str, tmp_path: Path) -> None:
    _deliver(store_url, tmp_path, events=400, kills=2, down=0.5)


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_ten_thousand_events_arrive_through_an_outage_and_twenty_kills(store_url: str, tmp_path: Path) -> None:
    _deliver(store_url, tmp_path, events=10_000, kills=20, down=5.0)


def _deliver(store_url: str, folder: Path, *, events: int, kills: int, down: float) -> None:
    dice, server = random.Random(7), Server(folder)
    app = holdfast.App(store_url)
    app.migrate()
    app.declare_destination("cloud", cap=50_000)
    invalid = set(dice.sample(range(events), events // 100))
    data = [{"n": n, "invalid": n in invalid} for n in range(events)]
    for at in range(0, events, 1_000):
        app.outbox("cloud").put_many(data[at : at + 1_000])
    server.start()
    arrived: Callable[[], int] = lambda: len({n for _, n in server.received()})  # noqa: E731
    try:
        with relays(store_url, folder, server.url, 2) as workers:
            for n in range(kills):
                share = (events - len(invalid)) * (n + 1) // (kills + 2)
                until(lambda share=share: arrived() >= share, 300, "the next share has arrived", workers.log)  # type: ignore[misc]
                kill(workers, dice.randrange(2))
                if n in (kills // 3, 2 * kills // 3):
                    server.kill()
                    # An outage is a time in which nobody answers; nothing else says when it is over.
                    time.sleep(down if n == kills // 3 else 0)
                    server.start()
            until(lambda: _left(app) == 0, 300, "every event is delivered or abandoned", workers.log)
            workers.stop_all()
        _check(app, server, data, invalid)
    finally:
        server.kill()
        app.close()


def _left(app: holdfast.App) -> int:
    (counts,) = app.outbox.list()
    return counts.pending + counts.sending + counts.parked


def _check(app: holdfast.App, server: Server, data: list[dict[str, object]], invalid: set[int]) -> None:
    received = server.received()
    assert {n for _, n in received} == set(range(len(data))) - invalid, "each valid one arrives, no invalid one"
    assert len(set(received)) == len({n for _, n in received}), "what comes twice has the same id"
    (counts,) = app.outbox.list()
    assert (counts.delivered, counts.abandoned) == (len(data) - len(invalid), len(invalid))
    twice = sum(count - 1 for count in Counter(received).values())
    print(f"{len(received)} arrivals of {len(data) - len(invalid)} events, {twice} of them repeated")
