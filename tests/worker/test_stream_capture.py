"""What jobs print and log, captured as frames."""

from __future__ import annotations

import logging
import sys
import threading

import pytest

from holdfast import SyncContext
from tests.patience import SOON

from .stream_kit import follow, said
from .worker_kit import Shop, live

# -- what is printed and logged


@live
async def test_what_a_job_prints_and_logs_becomes_its_frames_and_no_other_jobs(
    small_shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    both = threading.Barrier(2)
    log = logging.getLogger("shop.work")

    @small_shop.app.task(capture=("stdout", "stderr", "logs"))
    def prints(ctx: SyncContext, name: str) -> None:
        both.wait(SOON)
        print(f"out {name}")
        print(f"err {name}", file=sys.stderr)
        log.warning("log %s", name)
        sys.stdout.write("no end of line")

    @small_shop.app.task
    async def silent() -> None:
        print("not captured")

    async with small_shop.working(concurrency=4):
        jobs = [await prints.aenqueue(name) for name in "ab"]
        jobs.append(await silent.aenqueue())
        found = [[(f.kind, f.data) for f in await follow(small_shop, job)] for job in jobs]
    for name, frames in zip("ab", found, strict=False):
        assert frames == [
            ("stdout", f"out {name}\n"),
            ("stderr", f"err {name}\n"),
            ("log", {"level": "warning", "logger": "shop.work", "message": f"log {name}"}),
            ("stdout", "no end of line"),
        ]
    assert found[2] == []
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("out a", "out b", "not captured")), "it still goes where it went"
    assert type(sys.stdout).__name__ != "_Tap"


@live
async def test_only_what_was_chosen_is_captured_and_long_lines_are_cut(small_shop: Shop) -> None:
    @small_shop.app.task(capture=["stdout"])
    async def prints() -> None:
        print("é" * 70_000)
        print("not this", file=sys.stderr)
        logging.getLogger("shop").error("nor this")

    async with small_shop.working():
        job = await prints.aenqueue()
        frames = await follow(small_shop, job)
    assert {frame.kind for frame in frames} == {"stdout"}
    assert "".join(said(frames)) == "é" * 70_000 + "\n"


@live
async def test_why_a_run_failed_is_in_its_captured_log(small_shop: Shop) -> None:
    @small_shop.app.task(capture=["logs"], max_attempts=1)
    async def fails() -> None:
        raise LookupError("it is not there")

    async with small_shop.working():
        job = await fails.aenqueue()
        (frame,) = await follow(small_shop, job)
    assert "it is not there" in frame.data["error"]
