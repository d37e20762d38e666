"""`holdfast worker` as a real process: signals, logs, exit codes, several processes under a supervisor, and probes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

import holdfast
from holdfast.runtime.probes import ask
from tests.acceptance.cli_kit import Answer, call, finished, program
from tests.acceptance.fleet import until

TASKS = """
import asyncio, logging, os, time
import holdfast

app = holdfast.App()

@app.task(queue="mail")
async def welcome(user: int) -> int:
    logging.getLogger("shop").info("welcome %d", user)
    return user

@app.task
async def slow() -> None:
    await asyncio.sleep(3600)

@app.task
async def stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@app.task
async def whoami() -> int:
    return os.getpid()

@app.task
async def block() -> None:
    time.sleep(3600)

@app.task(timeout=0.05, max_attempts=1)
def hang() -> None:
    time.sleep(3600)
"""


pytestmark = pytest.mark.timeout(180)
# Seconds for a process to start, or to do at once what it was told.
PATIENCE = 45


class Started:
    """A worker whose log can be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._new.put(line)

    def heard(self, text: str, seconds: float = PATIENCE) -> str:
        """Wait for a line of the log that has `text`."""
        for line in self.lines:
            if text in line:
                return line
        while True:
            try:
                line = self._new.get(timeout=seconds)
            except Empty:
                raise AssertionError(f"{text!r} was not heard:\n{''.join(self.lines)}") from None
            self.lines.append(line)
            if text in line:
                return line

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        # Its children may go on to write for a moment.
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


Start = Callable[..., Started]


@pytest.fixture
def shop(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    """The producer's side of the app that the workers import from the current folder."""
    (tmp_path / "shop.py").write_text(TASKS, "utf-8")
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    app = holdfast.App(store_url)
    app.migrate()
    for name, queue in [("welcome", "mail"), ("slow", "default"), ("whoami", "default"), ("block", "default")]:
        app.declare(name, queue=queue)
    app.declare("stubborn")
    app.declare("hang", max_attempts=1, timeout=0.05)
    yield app
    app.close()


@pytest.fixture
def start(store_url: str, tmp_path: Path) -> Iterator[Start]:
    started: list[Started] = []

    def make(*options: str, **variables: str) -> Started:
        variables = {"HOLDFAST_STORE": store_url} | variables
        started.append(Started(program("worker", "shop:app", *options, folder=tmp_path, **variables)))
        return started[-1]

    yield make
    for worker in started:
        worker.end()


def test_it_runs_jobs_and_ends_well_when_told_to(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["welcome"].enqueue(user=7)
    worker = start()
    assert job.result(timeout=PATIENCE) == 7
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE) == 0
    assert shop.workers.list() == []


def test_what_is_not_done_within_the_grace_is_handed_back_at_no_cost(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["slow"].enqueue()
    worker = start("--grace", "0.2")
    until(lambda: job.state == "running", PATIENCE, "the job runs")
    worker.signal(signal.SIGINT)
    assert worker.process.wait(PATIENCE) == 0
    record = job.status()
    assert (record.state, record.reason, record.attempts, record.crashes) == ("ready", "shutdown", 0, 0)


def test_a_second_signal_ends_the_grace(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["slow"].enqueue()
    worker = start("--grace", "600")
    until(lambda: job.state == "running", PATIENCE, "the job runs")
    worker.signal(signal.SIGTERM)
    worker.heard("a second signal stops now")
    # Two within a moment are one that arrived twice, so it is sent until it is heard.
    until(lambda: worker.signal(signal.SIGTERM) or worker.process.poll() is not None, PATIENCE, "it ends")
    assert job.status().attempts == 0


def test_a_job_log_line_names_its_job_as_json(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["welcome"].enqueue(user=7)
    worker = start("--log-format", "json", "--log-level", "info")
    entry = json.loads(worker.heard("welcome 7"))
    assert (entry["job"], entry["task"], entry["attempt"], entry["logger"]) == (job.id, "welcome", 1, "shop")


def test_a_queue_that_no_task_uses_gets_a_warning(shop: holdfast.App, start: Start) -> None:
    worker = start("--queues", "mail,post")
    assert "WARNING" in worker.heard("no task of this app uses queue 'post'; its tasks use default, mail")
    worker.heard("serves mail, post")


def test_flags_win_over_variables(shop: holdfast.App, start: Start) -> None:
    start("--concurrency", "3", "--name", "front", HOLDFAST_CONCURRENCY="9", HOLDFAST_LEASE="4").heard("serves")
    [worker] = shop.workers.list()
    assert (worker.name, worker.concurrency, worker.lease) == ("front", 3, 4.0)


@pytest.mark.parametrize(
    "option", [["--lease", "1"], ["--concurrency", "0"], ["--queues", "a b"], ["--colour", "blue"]]
)
def test_a_wrong_option_is_told_before_anything_runs(shop: holdfast.App, tmp_path: Path, option: list[str]) -> None:
    answer = finished(program("worker", "shop:app", *option, folder=tmp_path, HOLDFAST_STORE=str(tmp_path / "x.db")))
    assert answer.code == 2
    assert "rror:" in answer.err
    assert "Traceback" not in answer.err


def test_the_jobs_of_a_killed_process_are_rescued_at_once_and_it_is_replaced(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["slow"].enqueue()
    supervisor = start("--processes", "2", "--lease", "600", "--grace", "0")
    until(lambda: job.state == "running", PATIENCE, "the job runs")
    owner = job.status().owner
    [victim] = [worker for worker in shop.workers.list() if worker.id == owner]
    os.kill(victim.pid, signal.SIGKILL)
    # Long before its lease ends, or anybody looks for lost workers.
    until(lambda: job.status().owner not in (None, owner), PATIENCE, "another process runs the job")
    assert [attempt.outcome for attempt in shop.jobs.attempts(job.id)] == ["lost"]
    until(lambda: len(shop.workers.list()) == 2, PATIENCE, "the process is replaced")
    supervisor.signal(signal.SIGTERM)
    assert supervisor.process.wait(PATIENCE) == 0


def test_workers_do_not_outlive_their_supervisor(shop: holdfast.App, start: Start) -> None:
    supervisor = start("--processes", "2", "--grace", "0")
    until(lambda: len(shop.workers.list()) == 2, PATIENCE, "both processes work")
    supervisor.process.kill()
    until(lambda: shop.workers.list() == [], PATIENCE, "both have left")


def test_a_loop_that_is_blocked_for_ever_ends_the_process(shop: holdfast.App, start: Start) -> None:
    shop.tasks["block"].enqueue()
    worker = start("--lease", "2")
    worker.heard("is taken for dead")
    assert worker.process.wait(PATIENCE) == 70


def test_too_many_hanging_threads_end_the_worker(shop: holdfast.App, start: Start) -> None:
    worker = start(HOLDFAST_CANCEL_GRACE="0.05")
    worker.heard("serves")
    # More than hang at most: on a busy machine the time of some is over before they have begun.
    shop.enqueue_many([shop.tasks["hang"].job() for _ in range(60)])
    worker.heard("too many threads hang")
    assert worker.process.wait(PATIENCE) == 75


def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_process(shop: holdfast.App, start: Start) -> None:
    job = shop.tasks["stubborn"].enqueue()
    worker = start("--grace", "0", HOLDFAST_CANCEL_GRACE="0.05")
    until(lambda: job.state == "running", PATIENCE, "the job runs")
    worker.signal(signal.SIGTERM)
    worker.heard("although cancelled")
    assert worker.process.wait(PATIENCE) == 0
    assert (job.state, job.status().reason) == ("ready", "shutdown")


def test_it_waits_for_a_store_that_is_down_and_can_be_told_to_stop(tmp_path: Path, start: Start) -> None:
    (tmp_path / "shop.py").write_text(TASKS, "utf-8")
    worker = start(HOLDFAST_STORE="postgresql://me:s3cret@127.0.0.1:1/shop")
    worker.heard("the store cannot be used")
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE) == 0
    assert "s3cret" not in "".join(worker.lines)


# -- health


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def lives(port: int) -> bool:
    return ask("live", port)[0]


def is_ready(port: int) -> bool:
    return ask("ready", port)[0]


def check(port: int, *options: str) -> Answer:
    return call("workers", "check", "--health-port", str(port), *options)


def test_a_worker_is_ready_until_it_is_told_to_stop_and_alive_until_it_ends(
    shop: holdfast.App, start: Start, port: int
) -> None:
    job = shop.tasks["slow"].enqueue()
    worker = start("--health-port", str(port), "--grace", "600")
    until(lambda: is_ready(port), PATIENCE, "it is ready")
    assert (check(port), check(port, "--ready")) == (Answer(0, "ok\n", ""), Answer(0, "ok\n", ""))
    until(lambda: job.state == "running", PATIENCE, "the job runs")
    worker.signal(signal.SIGTERM)
    worker.heard("a second signal stops now")
    assert check(port).code == 0
    assert check(port, "--ready") == Answer(1, "", "the worker is stopping\n")
    worker.process.kill()
    worker.process.wait()
    assert (check(port).code, "no worker answers on port" in check(port).err) == (1, True)


def test_the_probe_fails_within_two_leases_of_a_blocked_loop(shop: holdfast.App, start: Start, port: int) -> None:
    start("--health-port", str(port), "--lease", "4")
    until(lambda: is_ready(port), PATIENCE, "it is ready")
    job = shop.tasks["block"].enqueue()
    until(lambda: job.state == "running", PATIENCE, "the job blocks the loop")
    blocked = time.monotonic()
    until(lambda: not lives(port), 8, "it is not alive any more")
    assert time.monotonic() - blocked > 2
    assert "the claim loop has not turned for" in ask("live", port)[1]


def test_a_supervisor_answers_for_its_processes(shop: holdfast.App, start: Start, port: int) -> None:
    supervisor = start("--processes", "2", "--lease", "4", HOLDFAST_HEALTH_PORT=str(port))
    until(lambda: is_ready(port), PATIENCE, "both are ready")
    one, other = (worker.pid for worker in shop.workers.list())

    os.kill(one, signal.SIGKILL)
    until(lambda: not is_ready(port), PATIENCE, "one of them is missing")
    assert lives(port)
    until(lambda: is_ready(port), PATIENCE, "it was replaced")

    os.kill(other, signal.SIGSTOP)
    until(lambda: not lives(port), 8, "one of them is stuck")
    assert "has not reported for" in ask("live", port)[1]
    os.kill(other, signal.SIGCONT)
    until(lambda: lives(port), PATIENCE, "it reports again")

    supervisor.signal(signal.SIGTERM)
    assert supervisor.process.wait(PATIENCE) == 0


def test_a_worker_that_waits_for_its_store_is_alive_and_not_ready(tmp_path: Path, start: Start, port: int) -> None:
    (tmp_path / "shop.py").write_text(TASKS, "utf-8")
    start("--health-port", str(port), HOLDFAST_STORE="postgresql://me@127.0.0.1:1/shop")
    until(lambda: lives(port), PATIENCE, "it answers")
    assert ask("ready", port) == (False, "the worker is starting")


def test_a_port_in_use_is_told_before_anything_runs(tmp_path: Path, port: int) -> None:
    (tmp_path / "shop.py").write_text(TASKS, "utf-8")
    with socket.create_server(("127.0.0.1", port)):
        for processes in ("1", "2"):
            answer = finished(
                program(
                    "worker", "shop:app", "--health-port", str(port), "--processes", processes,
                    folder=tmp_path, HOLDFAST_STORE=str(tmp_path / "x.db"),
                )
            )  # fmt: skip
            assert (answer.code, "give another --health-port" in answer.err) == (2, True)
