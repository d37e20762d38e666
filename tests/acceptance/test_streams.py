"""A writer at 2,000 frames a second that is killed, and ten readers in two processes who see all it said, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import holdfast
from tests.acceptance.fleet import ROOT, Fleet, until
from tests.acceptance.jobs import FRAME_RATE
from tests.acceptance.stream_readers import digest

pytestmark = pytest.mark.thorough

OPTIONS = ("--queues", "streams", "--concurrency", "4")
READERS = 10


@pytest.mark.timeout(300)
def test_ten_readers_in_two_processes_see_every_frame_though_the_writer_is_killed(
    app: holdfast.App, workers: Fleet
) -> None:
    _narrate(app, workers, seconds=1.0, kills=1)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_ten_readers_see_every_frame_of_many_jobs_whose_writers_are_killed(app: holdfast.App, workers: Fleet) -> None:
    _narrate(app, workers, seconds=8.0, kills=5)


def _narrate(app: holdfast.App, workers: Fleet, *, seconds: float, kills: int) -> None:
    workers.start(*OPTIONS)
    for _ in range(kills):
        # One kill for each: a job whose process dies again and again would be convicted.
        _narrate_one(app, workers, int(FRAME_RATE * seconds))
    workers.stop_all()


def _narrate_one(app: holdfast.App, workers: Fleet, frames: int) -> None:
    job = app.tasks["narrate"].options(delay=3600).enqueue(frames)
    with _readers(workers, job.id) as processes:
        # Only now, because processes take their time to start.
        app.jobs.run_now(job.id)
        _until_said(app, job.id, frames // 3, workers)
        workers.kill(0, *OPTIONS)
        assert job.result(60 + 4 * frames / FRAME_RATE) == 2
        found = [line for process in processes for line in process.communicate(timeout=120)[0].splitlines()]
    stored = _stored(app, job.id)
    numbers = [frame.seq for frame in stored]
    assert numbers == list(range(1, len(stored) + 1)), "without gaps"
    first = [frame.data for frame in stored if frame.attempt == 1]
    second = [frame.data for frame in stored if frame.attempt == 2]
    assert [frame.data for frame in stored] == first + second, "nothing of the first comes after the second began"
    assert first == [f"1 {n}" for n in range(len(first))]
    assert frames // 3 <= len(first) < frames
    assert second == [f"2 {n}" for n in range(frames)]
    assert len(found) == READERS
    assert set(found) == {digest(stored)}, "each saw each frame once and in order"


def _until_said(app: holdfast.App, job_id: str, frames: int, workers: Fleet) -> None:
    cursor: list[str | None] = [None]

    def is_said() -> bool:
        page = app.streams.read(job_id, after=cursor[0], limit=10_000, best_effort=False)
        cursor[0] = page.cursor
        return bool(page.frames) and page.frames[-1].seq >= frames

    until(is_said, 120, "the first writer has said a third", workers.log)


def _stored(app: holdfast.App, job_id: str) -> list[holdfast.model.Frame]:
    found: list[holdfast.model.Frame] = []
    after = None
    while (page := app.streams.read(job_id, after=after, limit=10_000, best_effort=False)).frames:
        found += page.frames
        after = page.cursor
    return found


@contextmanager
def _readers(workers: Fleet, job_id: str) -> Iterator[list[subprocess.Popen[str]]]:
    store = workers.environment["HOLDFAST_STORE"]
    command = [sys.executable, "-m", "tests.acceptance.stream_readers", store, job_id, str(READERS // 2)]
    with ExitStack() as stack:
        started = []
        for _ in range(2):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=workers.environment)
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield started
