"""Work over HTTP alone: a server, and workers that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from tests.acceptance.fleet import ROOT, until

pytestmark = pytest.mark.thorough

JOBS = 1_000
# Seconds. It must run out before the others' jobs are rescued, and not because the machine is busy.
LEASE = 10


@pytest.mark.timeout(400)
def test_a_worker_that_only_speaks_http_drains_jobs_is_killed_and_its_jobs_are_rescued(store_url: str) -> None:
    token = access(store_url)
    with serving(store_url) as address, caller(address, token) as call:
        new = [{"task": "double", "arguments": {"n": n}} for n in range(JOBS)]
        ids = call("POST", "/jobs/bulk", json={"jobs": new})["ids"]
        # However late it is killed, it is in the middle of a page.
        first = worker(address, token, jobs=JOBS // 2 + 25)
        try:
            until(lambda: succeeded(call) > JOBS // 5, 120, "a fifth is done")
        finally:
            first.kill()
            first.wait()
        assert first.returncode == -9
        held = running(call)
        assert held, "it was killed with jobs in its hands"
        second = worker(address, token, jobs=JOBS)
        try:
            # Nobody but the server is there to find out that the first is lost.
            until(lambda: succeeded(call) == JOBS, 120, "all are done")
        finally:
            second.kill()
            second.wait()
        results = {job_id: call("GET", f"/jobs/{job_id}") for job_id in {*held, *ids[::50]}}
        assert [results[job_id]["result"] for job_id in ids[::50]] == [2 * n for n in range(0, JOBS, 50)]
        # What it had sent when it was killed was still recorded: those jobs have ended in their first run.
        first_runs = [job_id for job_id in held if results[job_id]["attempts"] == 1]
        rescued = {job_id: results[job_id]["history"] for job_id in held if job_id not in first_runs}
        assert rescued
        assert {history[0]["outcome"] for history in rescued.values()} == {"lost"}
        said = call("GET", f"/jobs/{ids[500]}/stream")["items"]
        assert said[0]["data"] == "working on 500"


def access(store: str) -> str:
    app = holdfast.App(store)
    app.migrate()
    try:
        return app.tokens.create("elsewhere", scopes=["work", "enqueue", "read", "payload"]).secret
    finally:
        app.close()


@contextmanager
def serving(store: str) -> Iterator[str]:
    """`holdfast serve` over a store whose tasks it does not know."""
    command = [sys.executable, "-m", "holdfast", "serve", "--store", store, "--port", "0", "--auth", "required"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[2]
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def caller(address: str, token: str) -> Iterator[Callable[..., Any]]:
    with httpx2.Client(
        base_url=f"{address}/api/v1", headers={"authorization": f"Bearer {token}"}, timeout=60
    ) as client:

        def call(method: str, path: str, **how: Any) -> Any:
            answer = client.request(method, path, **how)
            assert answer.status_code < 300, answer.text
            return answer.json()

        yield call


def worker(address: str, token: str, *, jobs: int) -> subprocess.Popen[bytes]:
    # Without the library on its path, and isolated from whatever is installed.
    script = Path(__file__).with_name("http_worker.py")
    command = [sys.executable, "-I", str(script), address, token, str(LEASE), str(jobs)]
    return subprocess.Popen(command, cwd="/")


def succeeded(call: Callable[..., Any]) -> int:
    counts = call("GET", "/jobs/counts")["items"]
    return sum(one["jobs"] for one in counts if one["state"] == "succeeded")


def running(call: Callable[..., Any]) -> list[str]:
    return [job["id"] for job in call("GET", "/jobs?state=running&limit=500")["items"]]
