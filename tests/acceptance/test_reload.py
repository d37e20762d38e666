"""`holdfast worker --reload`: a real worker whose files change."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import holdfast
from holdfast.runtime.reloading import python_files, roots_of
from tests.acceptance.cli_kit import program
from tests.acceptance.fleet import until
from tests.acceptance.test_cli_worker import PATIENCE, Started

pytestmark = pytest.mark.timeout(180)

TASKS = """
import asyncio
import holdfast

app = holdfast.App()

@app.task
async def greet() -> str:
    return "WORD"

@app.task
async def slow() -> None:
    await asyncio.sleep(3600)
"""


class Program:
    """A program's file, which a test changes while a worker runs it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "shop.py"
        self._times = count(int(time.time()) + 10)
        self.write(TASKS)

    def write(self, text: str) -> None:
        # Of another time than before, whatever the resolution of the file system.
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text, "utf-8")
        os.utime(fresh, (next(self._times),) * 2)
        fresh.replace(self.file)


@pytest.fixture
def shop(store_url: str) -> Iterator[holdfast.App]:
    app = holdfast.App(store_url)
    app.migrate()
    app.declare("greet")
    app.declare("slow")
    yield app
    app.close()


@pytest.fixture
def code(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def reloader(shop: holdfast.App, code: Program, tmp_path: Path, store_url: str) -> Iterator[Started]:
    options = ("--reload", "--log-level", "debug")
    started = Started(program("worker", "shop:app", *options, folder=tmp_path, HOLDFAST_STORE=store_url))
    started.heard("serves default")
    yield started
    started.end()


def test_a_change_restarts_the_worker_which_hands_its_jobs_back(
    shop: holdfast.App, code: Program, reloader: Started
) -> None:
    slow = shop.tasks["slow"].enqueue()
    until(lambda: slow.state == "running", PATIENCE, "the job runs")
    code.write(TASKS.replace("WORD", "second"))
    reloader.heard("shop.py changed; starting the worker again")
    assert shop.tasks["greet"].enqueue().result(timeout=PATIENCE) == "second"
    until(lambda: slow.state == "running", PATIENCE, "the job runs again")
    assert [(attempt.outcome, attempt.attempt) for attempt in shop.jobs.attempts(slow.id)] == [("released", 1)]
    reloader.signal(signal.SIGINT)
    assert reloader.process.wait(PATIENCE) == 0
    assert (slow.state, shop.workers.list()) == ("ready", [])


def test_a_syntax_error_is_printed_and_the_next_change_starts_the_worker(
    shop: holdfast.App, code: Program, reloader: Started
) -> None:
    code.write("def broken(:")
    reloader.heard("SyntaxError")
    reloader.heard("the worker ended with exit code 2; it is started again after the next change")
    job = shop.tasks["greet"].enqueue()
    code.write(TASKS.replace("WORD", "mended"))
    assert job.result(timeout=PATIENCE) == "mended"
    reloader.signal(signal.SIGTERM)
    assert reloader.process.wait(PATIENCE) == 0


def test_the_worker_does_not_outlive_its_reloader(shop: holdfast.App, reloader: Started) -> None:
    reloader.process.kill()
    until(lambda: shop.workers.list() == [], PATIENCE, "it has left")


def test_files_of_the_program_are_watched_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ["jobs.py", "shop/tasks.py"]
    left = ["notes.txt", ".git/hook.py", "env/lib/six.py", "node_modules/gyp.py", "lib/site-packages/six.py"]
    for name in [*kept, *left, "env/pyvenv.cfg"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(python_files([tmp_path])) == [str(tmp_path / name) for name in kept]
    monkeypatch.chdir(tmp_path)
    assert roots_of(["", str(tmp_path / "shop"), os.path.dirname(pytest.__file__), os.path.dirname(os.__file__)]) == [
        tmp_path
    ]
