"""The event loop of a worker ends, whatever refuses to."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from holdfast.runtime import running
from holdfast.runtime.running import run_to_its_end
from tests.patience import SOON


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_LAST_CHANCE", 0.1)


async def refuses_to_end() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


def test_what_is_left_is_cancelled_and_the_result_returned() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def main() -> int:
        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        assert not task.done()
        return 7

    assert run_to_its_end(main()) == (7, True)
    assert ended == ["cancelled"]


def test_an_error_reaches_the_caller_after_all_has_ended() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_to_its_end(main())
    assert loops[0].is_closed()


def test_a_task_that_swallows_its_cancellation_is_named_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[asyncio.Task[None]] = []

    async def main() -> asyncio.AbstractEventLoop:
        kept.append(asyncio.create_task(refuses_to_end(), name="stubborn"))
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    loop, all_ended = run_to_its_end(main())
    assert not all_ended
    assert loop.is_closed()
    [record] = [record for record in caplog.records if record.name == "holdfast.worker"]
    assert record.levelno == logging.WARNING
    assert "stubborn (refuses_to_end > Event.wait)" in record.getMessage()


def test_async_generators_are_closed() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def main() -> None:
        found = numbers()
        assert await anext(found) == 1
        kept.append(found)

    kept: list[AsyncIterator[int]] = []
    assert run_to_its_end(main()) == (None, True)
    assert closed == ["closed"]


def test_a_thread_that_hangs_in_a_call_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    begun, leave = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert leave.wait(SOON)

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, hang)
        await asyncio.to_thread(begun.wait, SOON)

    try:
        assert run_to_its_end(main()) == (None, False)
    finally:
        leave.set()
    assert "hang in their calls" in caplog.text


def test_a_thread_that_returns_in_time_is_waited_for() -> None:
    done: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, done.append, "done")

    assert run_to_its_end(main()) == (None, True)
    assert done == ["done"]
