"""Children that stay, and answer line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import InvalidInput
from holdfast.ready import pool
from holdfast.tasks.task import Task
from tests.patience import SOON

from .test_ready_command import gone
from .worker_kit import AT_ONCE, Shop, live

CHILD = [sys.executable, str(Path(__file__).parent / "line_child.py")]


def made(shop: Shop, **options: Any) -> Task[..., Any]:
    return pool(shop.app, "lines", CHILD, retry=AT_ONCE, **options)


@live
async def test_one_child_answers_job_after_job(real_shop: Shop) -> None:
    lines = made(real_shop)
    async with real_shop.working(concurrency=1):
        answers = [await (await lines.aenqueue()).aresult(SOON) for _ in range(3)]

    assert [answer["served"] for answer in answers] == [1, 2, 3]
    assert len({answer["pid"] for answer in answers}) == 1


@live
async def test_jobs_at_once_have_a_child_each(small_shop: Shop) -> None:
    lines = made(small_shop)
    async with small_shop.working(concurrency=3):
        jobs = [await lines.aenqueue() for _ in range(9)]
        answers = [await job.aresult(SOON) for job in jobs]

    assert 1 <= len({answer["pid"] for answer in answers}) <= 3
    assert all(answer["attempt"] == 1 for answer in answers)


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("die", "return code 3"),
        ("half", "ended before its answer"),
        ("nonsense", "not valid JSON"),
        ("other id", "another job"),
        ("list", "another job"),
        ("odd status", "none of ok, error, throttled"),
        ("long", "more than 1 MiB"),
    ],
)
@live
async def test_a_child_that_misbehaves_is_replaced_and_its_job_tried_again(
    small_shop: Shop, do: str, said: str
) -> None:
    lines = made(small_shop, max_attempts=2)
    async with small_shop.working(concurrency=1):
        before = await (await lines.aenqueue()).aresult(SOON)
        record = await small_shop.until_ended(await lines.aenqueue({"do": do}))
        after = await (await lines.aenqueue()).aresult(SOON)
        await gone(str(before["pid"]))

    assert (record.state, record.attempts) == ("failed", 2)
    assert said in (record.error or "")
    assert (after["served"], after["pid"] != before["pid"]) == (1, True)


@live
async def test_a_child_that_says_no_stays(small_shop: Shop) -> None:
    lines = made(small_shop, max_attempts=2)
    async with small_shop.working(concurrency=1):
        failed = await small_shop.until_ended(await lines.aenqueue({"do": "fail"}))
        hopeless = await small_shop.until_ended(await lines.aenqueue({"do": "fail", "permanent": True}))
        after = await (await lines.aenqueue()).aresult(SOON)

    assert (failed.attempts, failed.reason) == (2, "exhausted")
    assert (hopeless.attempts, hopeless.reason) == (1, "permanent")
    assert "it went wrong" in (hopeless.error or "")
    assert after["served"] == 4


@pytest.mark.parametrize("after", [5, "soon", -1, 10**12, None])
@live
async def test_a_child_that_is_throttled_costs_no_attempt(small_shop: Shop, after: object) -> None:
    lines = made(small_shop)
    async with small_shop.working(concurrency=1):
        job = await lines.aenqueue({"do": "throttle", "after": after})
        record = await small_shop.until_again(job, "throttle")

    assert record.attempts == 0
    assert record.not_before - small_shop.clock.now() == (5 if after == 5 else 60) * 1_000_000


@live
async def test_the_child_of_a_job_whose_time_is_over_is_killed(small_shop: Shop, pipe: Path) -> None:
    from .worker_kit import read_pipe

    lines = made(small_shop, timeout=5, max_attempts=1)
    async with small_shop.working(concurrency=1) as worker:
        job = await lines.aenqueue({"do": "hang", "pipe": str(pipe)})
        pid = await read_pipe(pipe)
        await small_shop.pass_time(6, worker)
        record = await small_shop.until_ended(job)
        await gone(pid)
    assert record.reason == "timeout"


def test_children_end_with_the_loop_that_started_them(small_shop: Shop) -> None:
    lines = made(small_shop)
    first, second = lines.enqueue(), None
    small_shop.app.drain()
    second = lines.enqueue()
    small_shop.app.drain()

    pids = [job.result(0)["pid"] for job in (first, second)]
    assert pids[0] != pids[1]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("argv", [[], "python child.py", ["a\0"]])
def test_a_program_is_named_by_a_list(small_shop: Shop, argv: Any) -> None:
    with pytest.raises(InvalidInput, match="list"):
        pool(small_shop.app, "lines", argv)
