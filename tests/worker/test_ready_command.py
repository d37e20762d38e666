"""`cmd.exec`: commands as jobs, which leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import App
from holdfast.ready import command
from tests.patience import SOON

from .worker_kit import AT_ONCE, Shop, live, read_pipe

PYTHON = sys.executable
# Says through a pipe who it is and who its child is, and both would go on for ever.
FAMILY = """
import os, subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
pipe = os.open(sys.argv[1], os.O_WRONLY)
os.write(pipe, f"{os.getpid()} {child.pid}".encode())
time.sleep(600)
"""


async def gone(*pids: str) -> None:
    """Return when those processes have ended."""
    for pid in pids:
        try:
            process = os.pidfd_open(int(pid))
        except ProcessLookupError:
            continue
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process, ended.set)
        try:
            async with asyncio.timeout(SOON):
                await ended.wait()
        finally:
            loop.remove_reader(process)
            os.close(process)


@live
async def test_a_command_runs_and_what_it_wrote_is_the_result(real_shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    run = command(real_shop.app, root=tmp_path, env={"GIVEN": "here"})
    code = "import os, sys; print(os.getcwd(), *map(os.getenv, ['GIVEN', 'MINE']), input()); sys.stderr.write('e')"
    async with real_shop.working():
        job = await run.aenqueue([PYTHON, "-c", code, "; rm -rf $HOME"], cwd="work", env={"MINE": "too"}, stdin="in")
        result = await job.aresult(SOON)

    assert result.output == f"{tmp_path.resolve() / 'work'} here too in\n"
    assert (result.errors, result.truncated) == ("e", False)


@live
async def test_a_command_sees_nothing_of_the_worker_that_it_was_not_given(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_PASSWORD_OF_SOMETHING", "hunter2")
    run = command(small_shop.app)
    async with small_shop.working():
        result = await (await run.aenqueue(["env"])).aresult(SOON)
    assert "hunter2" not in result.output
    assert "PATH=" in result.output


@live
async def test_only_the_end_of_what_it_writes_is_kept(small_shop: Shop) -> None:
    run = command(small_shop.app, tail=10)
    async with small_shop.working():
        result = await (await run.aenqueue([PYTHON, "-c", "print('x' * 3_000_000 + 'the end!!')"])).aresult(SOON)
    assert (result.output, result.truncated) == ("the end!!\n", True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([PYTHON, "-c", "import sys; sys.exit('wrong' * 100)"], "exit code 1: "),
        ([PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"], "killed by SIGKILL"),
        (["no-such-program-anywhere"], "No such file"),
    ],
)
@live
async def test_a_command_that_fails_is_tried_again_and_its_end_is_told(
    small_shop: Shop, argv: list[str], said: str
) -> None:
    run = command(small_shop.app, retry=AT_ONCE, max_attempts=2)
    async with small_shop.working():
        record = await small_shop.until_ended(await run.aenqueue(argv))
    assert (record.state, record.attempts) == ("failed", 2)
    assert said in (record.error or "")
    assert len(record.error or "") < 4_000


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"argv": []}, "argv is empty"),
        ({"argv": ["sh", "-c", "x"]}, "not one of the programs"),
        ({"argv": ["/bin/echo"]}, "not one of the programs"),
        ({"argv": ["echo", "a\0b"]}, "NUL"),
        ({"argv": ["echo"], "env": {"LD_PRELOAD": "x"}}, "not a variable"),
        ({"argv": ["echo"], "cwd": ".."}, "does not lie within"),
        ({"argv": ["echo"], "cwd": "/etc"}, "does not lie within"),
        ({"argv": ["echo"], "cwd": "link"}, "does not lie within"),
        ({"argv": ["echo"], "cwd": "missing"}, "cannot be used"),
        ({"argv": ["echo"], "cwd": "file"}, "cannot be used"),
        ({"argv": ["echo"], "cwd": "a\0b"}, "NUL"),
    ],
)
@live
async def test_what_is_not_allowed_fails_for_good(
    small_shop: Shop, tmp_path: Path, job: dict[str, Any], why: str
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    (tmp_path / "root" / "file").touch()
    run = command(small_shop.app, programs=["echo"], root=tmp_path / "root")
    async with small_shop.working():
        record = await small_shop.until_ended(await run.aenqueue(**job))
    assert (record.state, record.attempts) == ("failed", 1)
    assert why in (record.error or "")


@live
async def test_what_it_writes_can_be_followed_in_the_jobs_stream(small_shop: Shop) -> None:
    run = command(small_shop.app, stream=True)
    async with small_shop.working():
        job = await run.aenqueue([PYTHON, "-c", "import sys; print('out'); print('err', file=sys.stderr)"])
        await job.aresult(SOON)
    frames = {frame.kind: frame.data for frame in small_shop.app.streams.read(job).frames}
    assert (frames["stdout"], frames["stderr"]) == ("out\n", "err\n")


@live
async def test_a_cancelled_command_is_killed_with_all_that_it_started(real_shop: Shop, pipe: Path) -> None:
    run = command(real_shop.app, grace=0.1)
    async with real_shop.working():
        job = await run.aenqueue([PYTHON, "-c", FAMILY, str(pipe)])
        pids = (await read_pipe(pipe)).split()
        await job.acancel()
        record = await real_shop.until_ended(job)
        await gone(*pids)
    assert record.state == "cancelled"


@live
async def test_a_command_whose_time_is_over_is_killed_with_all_that_it_started(small_shop: Shop, pipe: Path) -> None:
    run = command(small_shop.app, grace=0.1, timeout=5, max_attempts=1)
    async with small_shop.working() as worker:
        job = await run.aenqueue([PYTHON, "-c", FAMILY, str(pipe)])
        pids = (await read_pipe(pipe)).split()
        await small_shop.pass_time(6, worker)
        record = await small_shop.until_ended(job)
        await gone(*pids)
    assert (record.state, record.reason) == ("failed", "timeout")


@live
async def test_what_a_command_leaves_in_the_background_ends_with_it(small_shop: Shop, pipe: Path) -> None:
    leaves = "import os,subprocess,sys; child = subprocess.Popen(['sleep', '600']); print(child.pid)"
    run = command(small_shop.app)
    async with small_shop.working():
        result = await (await run.aenqueue([PYTHON, "-c", leaves])).aresult(SOON)
    await gone(result.output.strip())


@live
async def test_a_command_does_not_outlive_a_worker_that_is_killed(tmp_path: Path, pipe: Path) -> None:
    app = App(str(tmp_path / "jobs.db"))
    run = command(app)
    await run.aenqueue([PYTHON, "-c", FAMILY, str(pipe)])
    app.close()
    program = f"from holdfast import App, ready; app = App({app.config.store!r}); ready.command(app); app.drain()"
    source = str(Path(holdfast.__file__).parents[1])
    worker = subprocess.Popen([PYTHON, "-c", program], env={**os.environ, "PYTHONPATH": source})
    try:
        pids = (await read_pipe(pipe)).split()
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    await gone(*pids)
