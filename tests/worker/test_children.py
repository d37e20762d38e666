from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.worker.processes.identity import is_gone
from holdfast.worker.processes.messages import CancelOrder, FrameSplitter, frame, orders
from holdfast.worker.processes.pool import ChildDied, ChildPool, ChildTicket, importable
from tests.patience import SOON

from . import apart
from .programs import ENV, key_of, python, wait_gone

MODULE = apart.__name__


@asynccontextmanager
async def pool_of(size: int) -> AsyncIterator[ChildPool]:
    pool = ChildPool(size)
    try:
        yield pool
    finally:
        await pool.close()


def with_pool(body: Callable[[ChildPool], Awaitable[None]], size: int = 1) -> None:
    async def main() -> None:
        async with asyncio.timeout(SOON), pool_of(size) as pool:
            await body(pool)

    asyncio.run(main())


def submit(pool: ChildPool, name: str, payload: str = "", **header: Any) -> ChildTicket:
    return pool.submit(MODULE, name, {"id": "j1", **header}, payload)


async def outcome(pool: ChildPool, name: str, payload: str = "", **header: Any) -> dict[str, Any]:
    return await submit(pool, name, payload, **header).future


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


async def read_pipe(pipe: Path) -> str:
    """What a handler says through the pipe; returns when it has."""
    return await asyncio.to_thread(pipe.read_text)


async def _hang_up(pipe: Path, said: asyncio.Future[str]) -> None:
    """Let whoever still waits for a word go. Who has heard one may be about to leave: no writer waits for a reader."""
    while not said.done():
        with suppress(OSError):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        await asyncio.sleep(0.01)


def test_a_job_runs_in_a_child_that_is_reused_for_the_next() -> None:
    async def body(pool: ChildPool) -> None:
        assert await outcome(pool, "echo", "päyload") == {"kind": "done", "result": "j1 päyload"}
        first = await outcome(pool, "pid")
        assert first != {"kind": "done", "result": str(os.getpid())}
        assert await outcome(pool, "pid") == first
        assert pool.children == 1

    with_pool(body)


def test_as_many_children_run_as_the_pool_is_large_and_the_rest_waits(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        blocked = submit(pool, "wait_for_cancel", pipe=str(pipe))
        await read_pipe(pipe)
        other = await outcome(pool, "pid")
        waiting = [submit(pool, "pid") for _ in range(5)]
        assert {str(result) for result in await asyncio.gather(*(t.future for t in waiting))} == {str(other)}
        assert pool.children == 2
        pool.cancel(blocked)
        await blocked.future

    with_pool(body, size=2)


def test_large_texts_pass_in_both_directions() -> None:
    async def body(pool: ChildPool) -> None:
        text = "x" * 3_000_000
        assert (await outcome(pool, "echo", text))["result"] == f"j1 {text}"

    with_pool(body)


def test_a_child_has_the_workers_path_directory_and_environment_and_works_on_its_main_thread() -> None:
    async def body(pool: ChildPool) -> None:
        found = await outcome(pool, "surroundings")
        assert found["path"] == sys.path
        assert found["cwd"] == os.getcwd()
        assert found["pythonpath"] == os.environ.get("PYTHONPATH")
        assert found["main"] is True

    with_pool(body)


def test_what_a_handler_raises_is_an_outcome_and_the_child_goes_on() -> None:
    async def body(pool: ChildPool) -> None:
        failed = await outcome(pool, "fail", "luck")
        assert failed["kind"] == "failed"
        assert failed["error"]["type"] == "LookupError"
        assert failed["error"]["message"] == "no luck \\udcff"
        assert "apart.py" in failed["error"]["traceback"]
        assert (await outcome(pool, "leave"))["error"]["type"] == "SystemExit"
        assert (await outcome(pool, "unspeakable"))["error"]["type"] == "TypeError"
        assert (await outcome(pool, "echo", "still here"))["kind"] == "done"
        assert pool.children == 1

    with_pool(body)


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        ("no_such_module_anywhere", "task", "ModuleNotFoundError"),
        (MODULE, "no_such_task", "AttributeError"),
        (MODULE, "not_a_task", "TypeError"),
    ],
)
def test_a_task_that_the_child_cannot_find_is_a_failure_that_says_so(module: str, name: str, error: str) -> None:
    async def body(pool: ChildPool) -> None:
        failed = await pool.submit(module, name, {}, "").future
        assert (failed["kind"], failed["error"]["type"]) == ("failed", error)

    with_pool(body)


@pytest.mark.parametrize(("name", "exitcode", "signum"), [("exit_hard", 7, None), ("crash", None, signal.SIGSEGV)])
def test_a_child_that_dies_fails_only_its_own_job(
    name: str, exitcode: int | None, signum: int | None, pipe: Path
) -> None:
    async def body(pool: ChildPool) -> None:
        neighbour = submit(pool, "wait_for_cancel", pipe=str(pipe))
        await read_pipe(pipe)
        with pytest.raises(ChildDied) as caught:
            await outcome(pool, name)
        assert (caught.value.exitcode, caught.value.signal) == (exitcode, signum)
        assert (caught.value.killed, caught.value.begun) == (False, True)
        assert (await outcome(pool, "echo", "next"))["kind"] == "done"
        pool.cancel(neighbour)
        assert (await neighbour.future)["kind"] == "done"

    with_pool(body, size=2)


def test_a_child_killed_from_outside_is_a_death_by_that_signal(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        ticket = submit(pool, "hang", pipe=str(pipe))
        os.kill(int(await read_pipe(pipe)), signal.SIGKILL)
        with pytest.raises(ChildDied, match=r"died \(SIGKILL") as caught:
            await ticket.future
        assert caught.value.killed is False

    with_pool(body)


def test_a_job_given_to_a_child_that_dies_before_it_begins_runs_in_another() -> None:
    async def body(pool: ChildPool) -> None:
        first = await outcome(pool, "pid")
        os.kill(int(first["result"]), signal.SIGKILL)
        # The loop has not moved since, so the pool still takes the dead child for an idle one.
        second = await outcome(pool, "pid")
        assert second["kind"] == "done"
        assert second != first

    with_pool(body)


def test_a_handler_that_closes_every_descriptor_loses_its_child_and_no_more() -> None:
    async def body(pool: ChildPool) -> None:
        with pytest.raises(ChildDied):
            await outcome(pool, "hang_up")
        assert (await outcome(pool, "echo"))["kind"] == "done"

    with_pool(body)


def test_cancelling_reaches_a_blocking_handler_as_a_flag(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        ticket = submit(pool, "wait_for_cancel", pipe=str(pipe))
        await read_pipe(pipe)
        pool.cancel(ticket)
        assert (await ticket.future)["result"] == "cancelled True True"

    with_pool(body)


def test_an_async_handler_runs_on_a_loop_in_the_child_and_is_cancelled_there(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        assert (await outcome(pool, "nap", "short"))["result"] == "rested"
        ticket = submit(pool, "nap", "long", pipe=str(pipe))
        await read_pipe(pipe)
        pool.cancel(ticket)
        assert await ticket.future == {"kind": "cancelled"}
        assert (await outcome(pool, "nap", "short"))["result"] == "rested"
        assert pool.children == 1

    with_pool(body)


def test_a_cancel_that_comes_right_behind_its_job_is_not_lost_and_does_not_touch_the_next(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        ticket = submit(pool, "nap", "long", pipe=str(pipe))
        pool.cancel(ticket)
        said = asyncio.ensure_future(read_pipe(pipe))
        assert await ticket.future == {"kind": "cancelled"}
        pool.cancel(ticket)
        assert (await outcome(pool, "nap", "short"))["result"] == "rested"
        await _hang_up(pipe, said)

    with_pool(body)


def test_cancelling_or_killing_a_job_that_waits_means_that_it_never_runs(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        running = submit(pool, "wait_for_cancel", pipe=str(pipe))
        await read_pipe(pipe)
        first, second = submit(pool, "exit_hard"), submit(pool, "exit_hard")
        pool.cancel(first)
        assert pool.kill(second) is False
        assert first.future.cancelled()
        assert second.future.cancelled()
        pool.cancel(running)
        await running.future
        assert (await outcome(pool, "echo"))["kind"] == "done"

    with_pool(body)


def test_killing_ends_the_job_and_every_program_it_started(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        ticket = submit(pool, "hang_with_a_program", pipe=str(pipe))
        keys = [key_of(int(pid)) for pid in (await read_pipe(pipe)).split()]
        assert pool.kill(ticket) is True
        with pytest.raises(ChildDied, match=r"killed \(SIGKILL") as caught:
            await ticket.future
        assert caught.value.killed is True
        for key in keys:
            wait_gone(key)
        assert pool.kill(ticket) is False
        assert (await outcome(pool, "echo"))["kind"] == "done"

    with_pool(body)


def test_signals_for_the_group_are_left_to_the_worker(pipe: Path) -> None:
    async def body(pool: ChildPool) -> None:
        ticket = submit(pool, "wait_for_cancel", pipe=str(pipe))
        await read_pipe(pipe)
        child = int(ticket._child._process.pid) if ticket._child else 0
        os.killpg(child, signal.SIGINT)
        os.killpg(child, signal.SIGTERM)
        pool.cancel(ticket)
        assert (await ticket.future)["kind"] == "done"

    with_pool(body)


def test_what_a_handler_prints_goes_to_the_workers_error_output(capfd: pytest.CaptureFixture[str]) -> None:
    async def body(pool: ChildPool) -> None:
        await outcome(pool, "say", "hello")

    with_pool(body)
    out, err = capfd.readouterr()
    assert out == ""
    assert "out hello" in err
    assert "err hello" in err


def test_closing_kills_the_busy_and_dismisses_the_idle(pipe: Path) -> None:
    async def main() -> None:
        pool = ChildPool(2)
        busy = submit(pool, "hang", pipe=str(pipe))
        keys = [key_of(int(await read_pipe(pipe))), key_of(int((await outcome(pool, "pid"))["result"]))]
        assert pool.children == 2
        await pool.close()
        assert pool.children == 0
        for key in keys:
            wait_gone(key)
        with pytest.raises(ChildDied, match="killed"):
            await busy.future
        with pytest.raises(RuntimeError, match="closed"):
            submit(pool, "pid")

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_closing_cancels_what_waits(pipe: Path) -> None:
    async def main() -> None:
        pool = ChildPool(1)
        busy = submit(pool, "hang", pipe=str(pipe))
        await read_pipe(pipe)
        waiting = submit(pool, "pid")
        await pool.close()
        assert waiting.future.cancelled()
        assert isinstance(busy.future.exception(), ChildDied)

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_no_child_can_be_started_is_an_os_error() -> None:
    async def main() -> None:
        pool = ChildPool(1, python="/no/such/python")
        with pytest.raises(OSError, match="no/such/python"):
            await outcome(pool, "pid")
        assert pool.children == 0
        await pool.close()

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_a_header_that_cannot_be_sent_is_refused_at_once() -> None:
    async def body(pool: ChildPool) -> None:
        with pytest.raises(TypeError):
            submit(pool, "echo", bad=object())
        assert (await outcome(pool, "echo"))["kind"] == "done"

    with_pool(body)


WORKER = """
import asyncio, sys
from holdfast.worker.processes.pool import ChildPool
async def main():
    pool = ChildPool(2)
    await pool.submit("{module}", "pid", {{}}, "").future
    await pool.submit("{module}", "{task}", {{"pipe": "{pipe}"}}, "").future
asyncio.run(main())
"""


@pytest.mark.parametrize("task", ["hang_with_a_program", "hang_in_c"])
def test_children_and_their_programs_die_with_a_worker_that_is_killed_outright(task: str, pipe: Path) -> None:
    with subprocess.Popen(python(WORKER.format(module=MODULE, task=task, pipe=pipe)), env=ENV) as worker:
        keys = [key_of(int(pid)) for pid in pipe.read_text().split()]
        assert not any(is_gone(key) for key in keys)
        worker.kill()
    for key in keys:
        wait_gone(key)


def test_a_guard_that_died_is_replaced_and_knows_every_group(pipe: Path) -> None:
    async def main() -> None:
        pool = ChildPool(2)
        ticket = submit(pool, "hang_with_a_program", pipe=str(pipe))
        keys = [key_of(int(pid)) for pid in (await read_pipe(pipe)).split()]
        guard = pool._guard._process
        assert guard is not None
        guard.kill()
        guard.wait()
        await outcome(pool, "pid")
        assert pool._guard._process is not guard
        await asyncio.to_thread(pool._guard.close)
        with pytest.raises(ChildDied):
            await ticket.future
        for key in keys:
            wait_gone(key)
        await pool.close()

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_messages_are_cut_out_of_a_stream_wherever_it_is_torn() -> None:
    stream = frame(CancelOrder(1)) + frame(CancelOrder(2)) + frame(CancelOrder(3))
    for size in (1, 3, 7, len(stream)):
        frames = FrameSplitter()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        bodies = [body for piece in pieces for body in frames.feed(piece)]
        assert [orders.decode(body) for body in bodies] == [CancelOrder(1), CancelOrder(2), CancelOrder(3)]


def test_a_stream_that_is_none_of_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="something else wrote"):
        list(FrameSplitter().feed(b"GET / HTTP/1.1"))


def test_a_child_that_speaks_nonsense_is_killed() -> None:
    async def body(pool: ChildPool) -> None:
        with pytest.raises(ChildDied) as caught:
            await outcome(pool, "babble")
        assert caught.value.begun
        assert (await outcome(pool, "echo"))["kind"] == "done"

    with_pool(body)


def test_a_warm_child_costs_about_a_millisecond_a_job() -> None:
    async def body(pool: ChildPool) -> None:
        await outcome(pool, "echo")
        took: list[float] = []
        for _ in range(100):
            start = time.perf_counter()
            await outcome(pool, "echo")
            took.append(time.perf_counter() - start)
        # Of those that the machine had time for; about 0.3 ms on an idle one. To start a child takes 100 times as long.
        assert sorted(took)[10] < 0.01, took

    with_pool(body)


def test_only_what_a_child_could_import_is_importable() -> None:
    def local() -> None: ...

    assert importable(MODULE, "echo")
    assert importable("json.decoder", "JSONDecoder.decode")
    assert not importable("__main__", "task")
    assert not importable(MODULE, local.__qualname__)
    assert not importable(MODULE, (lambda: 0).__qualname__)
    assert not importable(MODULE, "")
    assert not importable("no_such_module_anywhere", "task")
    assert not importable("no_such_package.module", "task")


def test_a_pool_without_children_is_refused() -> None:
    with pytest.raises(ValueError, match="positive size"):
        ChildPool(0)
