"""The examples of each web framework, served by its own server in a process of its own."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.acceptance.cli_kit import ROOT, environment
from tests.patience import SOON
from tests.storage.lenders import sqlalchemy_url

pytestmark = pytest.mark.timeout(240)

Start = Callable[..., "Site"]
ADA = {"x-customer": "ada"}


@dataclass
class Site:
    """A served example, and the store it uses."""

    address: tuple[str, int]
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> tuple[int, str]:
        connection = HTTPConnection(*self.address, timeout=SOON)
        try:
            if body is not None:
                headers = {"content-type": "application/json"}
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def post(self, path: str) -> Any:
        status, text = self.ask("POST", path, ADA)
        assert status in (200, 201, 202), f"{status} {text} {self.log.read_text()}"
        return json.loads(text) if text else None

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(SOON)


class Sites:
    """Starts programs with the store and the database of a test."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.log = folder / "site.log"
        self.environment = environment(
            HOLDFAST_STORE=store, SHOP_LOG=str(folder / "shop.log"), HOLDFAST_LEASE="60", HOLDFAST_RESCUE_INTERVAL="0.7"
        )
        self._running: list[subprocess.Popen[bytes]] = []

    def use_database(self, dsn: str | None, drivers: dict[str, str]) -> None:
        where = self.store if dsn is None else dsn
        url = sqlalchemy_url(where, drivers["sqlite" if dsn is None else "postgres"])
        self.environment["DATABASE_URL"] = url.render_as_string(hide_password=False)

    def run(self, *command: str, **more: Any) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=self.environment, stdout=log, stderr=log, **more
            )
        self._running.append(process)
        return process

    def serve(self, *command: str, on: socket.socket | None = None) -> Site:
        """Serve on a socket that listens already, so that the first request waits in the kernel."""
        listening = on or socket.create_server(("127.0.0.1", 0))
        number = str(listening.fileno())
        process = self.run(*(word.replace("FD", number) for word in command), pass_fds=[listening.fileno()])
        site = Site(listening.getsockname()[:2], process, self.log)
        if on is None:
            listening.close()
        return site

    def logged(self) -> set[str]:
        """The lines that background tasks have written."""
        log = Path(self.environment["SHOP_LOG"])
        return set(log.read_text().split()) if log.exists() else set()

    def wait_for(self, lines: Sequence[str]) -> None:
        deadline = time.monotonic() + 3 * SOON
        while missing := set(lines) - self.logged():
            assert time.monotonic() < deadline, f"{len(missing)} are missing: {self.log.read_text()[-3000:]}"
            time.sleep(0.1)

    def finish(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def sites(store_url: str, tmp_path: Path) -> Iterator[Sites]:
    sites = Sites(store_url, tmp_path)
    yield sites
    sites.finish()


@pytest.fixture
def database(request: pytest.FixtureRequest, sites: Sites) -> Callable[..., None]:
    """Gives the example a database: the one that has the store."""
    dsn = request.getfixturevalue("postgres_dsn") if "postgres" in sites.store else None

    def use(**drivers: str) -> None:
        sites.use_database(dsn, drivers)

    return use


@pytest.fixture
def jobs(sites: Sites) -> Iterator[holdfast.App]:
    """The same store, seen from outside."""
    app = holdfast.App(sites.store)
    yield app
    app.close()


def stored(app: holdfast.App) -> list[str]:
    return sorted(job.task for job in app.jobs.find())


def events_of(text: str) -> list[tuple[str, Any]]:
    found = re.findall(r"event: (\w+)\ndata: (.*)\n", text)
    return [(event, json.loads(data)) for event, data in found]


# -- FastAPI


def test_a_fastapi_shop_commits_orders_with_their_jobs_and_shows_them(
    sites: Sites, database: Callable[..., None], jobs: holdfast.App
) -> None:
    database(sqlite="aiosqlite", postgres="asyncpg")
    site = sites.serve("uvicorn", "examples.web.with_fastapi:web", "--fd", "FD")
    assert site.ask("POST", "/orders?item=nothing")[0] == 409
    assert stored(jobs) == []

    job_id = site.post("/orders?item=cup")["job"]
    assert jobs.job(job_id).result(SOON) == "order 1 is packed" or "postgres" in sites.store
    assert stored(jobs) == ["pack", "write_log"]

    status, text = site.ask("GET", f"/jobs/{job_id}/events", ADA)
    events = events_of(text)
    assert status == 200
    assert [event for event, _ in events] == ["frame", "end"]
    assert events[0][1]["data"] == "cup is in the box"
    assert events[1][1] == json.loads(site.ask("GET", f"/jobs/{job_id}", ADA)[1])
    assert (events[1][1]["state"], events[1][1]["progress"]["percent"]) == ("succeeded", 50)
    assert site.ask("GET", f"/jobs/{job_id}/events", {**ADA, "last-event-id": "end"}) == (204, "")

    assert site.ask("GET", f"/jobs/{job_id}", {"x-customer": "eve"})[0] == 403
    assert site.ask("GET", "/jobs/nothing/events", ADA)[0] == 404
    assert site.ask("GET", "/dashboard/login")[0] == 200
    assert site.stop() in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in site.log.read_text()


FASTAPI = ("uvicorn", "examples.web.with_fastapi:web", "--fd", "FD")
VISITS = [f"visit-{number}" for number in range(1_000)]


def test_uvicorn_is_killed_with_a_thousand_background_tasks_of_one_request_and_loses_none(
    sites: Sites, database: Callable[..., None]
) -> None:
    database(sqlite="aiosqlite", postgres="asyncpg")
    site = sites.serve(*FASTAPI)
    assert site.ask("POST", "/visits", body=VISITS)[0] == 202
    site.process.kill()
    assert site.process.wait() == -signal.SIGKILL
    sites.serve(*FASTAPI)
    sites.wait_for(VISITS)


@pytest.mark.thorough
def test_uvicorn_is_killed_three_times_under_a_thousand_requests_and_loses_no_background_task(
    sites: Sites, database: Callable[..., None]
) -> None:
    database(sqlite="aiosqlite", postgres="asyncpg")
    waiting, done, kills, lock = list(VISITS), list[str](), [150, 450, 800], threading.Lock()

    def send() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                line = waiting.pop()
            status = 0
            with suppress(OSError, HTTPException):
                status, _ = served[-1].ask("POST", "/visits", body=[line])
            with lock:
                (done if status == 202 else waiting).append(line)
                if kills and len(done) >= kills[0]:
                    kills.pop(0)
                    served[-1].process.kill()
                    served.append(sites.serve(*FASTAPI, on=listening))

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        served = [sites.serve(*FASTAPI, on=listening)]
        with ThreadPoolExecutor(8) as pool:
            for sender in [pool.submit(send) for _ in range(8)]:
                sender.result()
        assert (sorted(done), len(served)) == (sorted(VISITS), 4)
        sites.wait_for(VISITS)


# -- the others


def test_a_starlette_shop_shows_customers_their_own_jobs(sites: Sites, jobs: holdfast.App) -> None:
    site = sites.serve("uvicorn", "examples.web.with_starlette:web", "--fd", "FD")
    job_id = site.post("/orders?item=cup")["job"]
    assert jobs.job(job_id).result(SOON) == "cup is packed"
    assert json.loads(site.ask("GET", f"/jobs/{job_id}", ADA)[1])["result"] == "cup is packed"
    assert site.ask("GET", f"/jobs/{job_id}", {"x-customer": "eve"})[0] == 404
    assert events_of(site.ask("GET", f"/jobs/{job_id}/events", ADA)[1])[-1][1]["state"] == "succeeded"
    site.post("/orders/many?item=jug&item=pot")
    assert stored(jobs) == ["pack"] * 3
    assert site.ask("GET", "/dashboard/login")[0] == 200
    assert site.stop() in (0, -signal.SIGTERM)


def test_a_bare_asgi_application_has_a_worker_without_supporting_lifespans(sites: Sites, jobs: holdfast.App) -> None:
    site = sites.serve("uvicorn", "examples.web.with_asgi:web", "--fd", "FD", "--lifespan", "on")
    status, job_id = site.ask("GET", "/?cup")
    assert (status, jobs.job(job_id).result(SOON)) == (202, "cup is packed")
    assert site.stop() in (0, -signal.SIGTERM)
    assert jobs.workers.list() == []


SERVERS = {
    "flask": ("flask", "--app", "examples.web.with_flask", "run", "--port", "0"),
    "gunicorn": ("gunicorn", "--bind", "fd://FD", "--workers", "2", "--preload", "examples.web.with_flask:web"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_flask_shop_runs_its_jobs_in_the_applications_context(
    sites: Sites, database: Callable[..., None], jobs: holdfast.App, server: str
) -> None:
    database(sqlite="", postgres="")
    flask = ("flask", "--app", "examples.web.with_flask")
    assert sites.run(*flask, "create-tables").wait(SOON) == 0
    assert sites.run(*flask, "holdfast", "db", "migrate").wait(SOON) == 0
    worker = sites.run(*flask, "holdfast", "worker", "--processes", "2")
    site = sites.serve(*SERVERS[server])
    if server == "flask":
        site.address = ("127.0.0.1", printed_port(site))
    assert site.ask("POST", "/orders?item=nothing")[0] == 409
    assert stored(jobs) == []
    job_id = site.post("/orders?item=cup")["job"]
    assert jobs.job(job_id).result(SOON).endswith("confirmed by shop@example.com")
    assert json.loads(site.ask("GET", f"/orders/{job_id}")[1])["state"] == "succeeded"
    worker.terminate()
    assert worker.wait(SOON) == 0
    site.stop()


def printed_port(site: Site) -> int:
    deadline = time.monotonic() + SOON
    while not (found := re.search(r"Running on http://127.0.0.1:(\d+)", site.log.read_text())):
        assert time.monotonic() < deadline, site.log.read_text()
        time.sleep(0.05)
    return int(found[1])


def test_a_litestar_shop_has_the_app_its_worker_and_its_commands(sites: Sites, jobs: holdfast.App) -> None:
    litestar = ("litestar", "--app", "examples.web.with_litestar:web")
    site = sites.serve(*litestar, "run", "--fd", "FD")
    job_id = site.post("/orders?item=cup")["job"]
    assert jobs.job(job_id).result(SOON) == "cup is packed"
    assert json.loads(site.ask("GET", f"/orders/{job_id}")[1]) == {"state": "succeeded"}
    site.post("/orders/many?items=jug&items=pot")
    assert stored(jobs) == ["pack"] * 3
    assert site.ask("GET", "/dashboard/login")[0] == 200
    assert site.ask("GET", "/dashboard/api/v1/health/live") == (200, '{"status":"ok"}')
    assert command(sites, *litestar, "holdfast", "jobs", "show", job_id)
    site.stop()


def command(sites: Sites, *words: str) -> bool:
    return sites.run(*words).wait(SOON) == 0
