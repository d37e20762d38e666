"""What can happen between the claim of a job and its start, while the results among its arguments are fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdfast
from holdfast.errors import StorageUnavailable
from holdfast.model.jobs import Claimed
from holdfast.worker.running.inputs import Inputs
from tests.patience import SOON

from . import isolated_flows
from .worker_kit import AT_ONCE, Shop, live

Fill = Callable[[Claimed, int], Coroutine[Any, Any, Claimed]]


def _pair(shop: Shop) -> holdfast.flows.Member[int]:
    """A job that takes the result of another."""

    @shop.app.task
    async def one() -> int:
        return 1

    @shop.app.task(retry=AT_ONCE)
    async def more(n: int) -> int:
        return n + 1

    with shop.app.flow("pair") as flow:
        return flow.add(more.job(flow.add(one.job()).output))


@live
async def test_results_are_there_when_the_handler_starts(shop: Shop) -> None:
    member = _pair(shop)
    async with shop.working():
        assert await member.aresult(SOON) == 2


@live
async def test_a_run_that_is_stopped_before_its_arguments_are_there_never_starts(shop: Shop) -> None:
    begun = asyncio.Event()

    async def never(job: Claimed, limit: int) -> Claimed:
        begun.set()
        await asyncio.Event().wait()
        return job

    member = _pair(shop)
    async with shop.working() as worker:
        _fetch(worker.runner.executor, never)
        await begun.wait()
        worker.runner.stop_all("cancel")
        assert (await shop.until_ended(member)).state == "cancelled"


@live
async def test_a_store_that_is_away_while_results_are_fetched_costs_a_retry(shop: Shop) -> None:
    tries = 0
    fetch = Inputs(shop.app.open())

    async def shaky(job: Claimed, limit: int) -> Claimed:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StorageUnavailable("away")
        return await fetch.fill(job, limit)

    member = _pair(shop)
    async with shop.working() as worker:
        _fetch(worker.runner.executor, shaky)
        assert await member.aresult(SOON) == 2
    assert member.status().attempts == 2


@live
async def test_a_result_that_was_pruned_fails_the_job_by_name(shop: Shop) -> None:
    member = _pair(shop)
    async with shop.working(concurrency=1) as worker:
        fetch = Inputs(shop.app.open())

        async def pruned(job: Claimed, limit: int) -> Claimed:
            shop.alter("update holdfast_ended set result = null where state = 'succeeded'")
            return await fetch.fill(job, limit)

        _fetch(worker.runner.executor, pruned)
        with pytest.raises(holdfast.JobFailed, match="inputs_missing: .* was pruned"):
            await member.aresult(SOON)


def test_a_member_in_a_process_of_its_own_gets_results_and_adds_members(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", place)
    with isolated_flows.app.override_store(place) as app:
        app.migrate()
        with app.flow("apart") as flow:
            first = flow.add(isolated_flows.begin.job())
            flow.add(isolated_flows.grow.job(first.output))
        app.drain()
        assert sorted(member.name for member in app.flows.graph(flow.id).members) == ["begin", "grow", "grow/last"]
        assert flow.result(0) == 12


def _fetch(executor: Any, fill: Fill) -> None:
    """Fetch results in another way than the worker's own."""
    executor._inputs = type("Own", (), {"fill": staticmethod(fill)})()
