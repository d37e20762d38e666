"""What happens to jobs is told to every webhook that asked for it, whoever is killed meanwhile."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import holdfast
from holdfast.model.events import Event
from holdfast.storage.ops.webhooks import fanout
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import sql
from tests.acceptance import webhook_jobs
from tests.acceptance.fleet import Fleet, fleet, until

pytestmark = pytest.mark.thorough

MODULE = "tests.acceptance.webhook_jobs:app"
Told = tuple[str, str, str]
"""To which path, the kind of the event, and of which job."""


class Receiver(ThreadingHTTPServer):
    """Takes every message, and keeps what came."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        self.came: list[tuple[str, Told, bytes]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker was killed while it spoke."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = json.loads(body)
        told = (self.path.strip("/"), said["type"], said["data"]["job"])
        self.server.came.append((self.headers["webhook-id"], told, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody listens."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@contextmanager
def workers(store: str, folder: Path) -> Iterator[Fleet]:
    with fleet(store, folder) as it:
        it.environment["HOLDFAST_LEAD_INTERVAL"] = "0.5"
        for _ in range(2):
            start(it)
        yield it


def start(it: Fleet) -> None:
    it.workers.append(it.run_python("-m", "holdfast", "worker", MODULE))


def kill(it: Fleet, index: int) -> None:
    it.workers[index].kill()
    it.workers[index].wait()
    start(it)
    it.workers[index] = it.workers.pop()


@pytest.mark.timeout(400)
def test_every_event_is_told_to_all_who_hear_it_whichever_worker_is_killed(store_url: str, tmp_path: Path) -> None:
    _tell(store_url, tmp_path, jobs=90, kills=2)


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_two_thousand_jobs_are_told_of_through_twelve_kills(store_url: str, tmp_path: Path) -> None:
    _tell(store_url, tmp_path, jobs=2_000, kills=12)


def _tell(store_url: str, folder: Path, *, jobs: int, kills: int) -> None:
    dice = random.Random(11)
    app = holdfast.App(store_url)
    app.migrate()
    app.outbound = webhook_jobs.app.outbound
    work = app.task(max_attempts=None)(webhook_jobs.work.fn)
    app.queues.set("default", events="all")
    with receiving() as receiver, workers(store_url, folder) as it:
        app.webhooks.add(receiver.url("everything"))
        app.webhooks.add(receiver.url("failures"), events=["job.failed"])
        app.webhooks.add(receiver.url("acme"), tenant="acme", tags=["x", "y"])
        asked = {"webhook": receiver.url("named"), "webhook_events": ["job.succeeded", "job.failed"]}
        options = [{"tenant": "acme"}, {"tenant": "acme", "tags": ["x"]}, asked]
        made = app.enqueue_many([work.options(**options[n % 3]).job(n) for n in range(jobs)])
        named = {job.id for job in made[2::3]}
        for n in range(kills):
            share = jobs * 3 * (n + 1) // (kills + 2)
            until(lambda share=share: len(receiver.came) >= share, 120, "the next share has come", it.log)  # type: ignore[misc]
            # One of them is the worker that passes events on; another does so some ten seconds later.
            kill(it, _leader(app, it) if n == kills - 1 else dice.randrange(2))
        until(lambda: _is_quiet(app), 300, "everything is told", it.log)
        assert set(it.stop_all()) == {0}
        _check(app, receiver, named)
    app.close()


def _leader(app: holdfast.App, it: Fleet) -> int:
    async def look(tx: Tx) -> dict[str, str]:
        return {role: holder for role, holder, _ in await tx.all(sql.leaders)}

    holder = app.open().read(Op(look)).get("webhooks")
    pids = {worker.id: worker.pid for worker in app.workers.list()}
    found = [n for n, process in enumerate(it.workers) if process.pid == pids.get(holder or "")]
    return found[0] if found else 0


def _is_quiet(app: holdfast.App) -> bool:
    """The jobs have ended, then all of that is passed on, and then the deliveries have ended."""
    return _all_ended(app) and not app.open().read(Op(fanout.is_behind)) and _all_ended(app)


def _all_ended(app: holdfast.App) -> bool:
    return {count.state for count in app.jobs.counts()} <= {"succeeded", "failed"}


def _check(app: holdfast.App, receiver: Receiver, named: set[str]) -> None:
    log = [event for event in app.events("start", kinds="job", timeout=0) if event.task == "work"]
    ends = Counter(event.job for event in log if event.kind in ("job.succeeded", "job.failed"))
    assert (len(ends), set(ends.values())) == (
        len(app.jobs.find(holdfast.model.JobFilter(task="work", limit=10_000))),
        {1},
    )

    should = Counter(told for event in log for told in _covered(event, named))
    messages = {id: told for id, told, _ in receiver.came}
    assert Counter(messages.values()) == should, "each event has one message for each who hears it"
    assert len({(id, told, body) for id, told, body in receiver.came}) == len(messages), "what comes twice is the same"
    print(f"{len(receiver.came)} arrivals of {len(messages)} messages")


def _covered(event: Event, named: set[str]) -> Iterator[Told]:
    assert event.job is not None
    yield ("everything", event.kind, event.job)
    if event.kind == "job.failed":
        yield ("failures", event.kind, event.job)
    if event.tenant == "acme" and "x" in event.tags:
        yield ("acme", event.kind, event.job)
    if event.job in named and event.kind in ("job.succeeded", "job.failed"):
        yield ("named", event.kind, event.job)
