from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.worker.maintenance.service import Pace, Service, pause_after_failure, sleep_or_wake, spread
from tests.patience import SOON


class Rests:
    """A sleep that takes no time, notes what was asked for, and stops the service after `n` rests."""

    def __init__(self, n: int) -> None:
        self.asked: list[float] = []
        self.service: Service | None = None
        self._n = n

    async def __call__(self, seconds: float, wake: asyncio.Event) -> None:
        self.asked.append(seconds)
        if len(self.asked) >= self._n and self.service is not None:
            self.service.stop()


def run_for(rests: Rests, outcomes: list[float | Exception | None], pace: Pace, luck: float = 0.5) -> Service:
    async def work() -> float | None:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def main() -> Service:
        service = Service("pruner", work, pace, consequence="old rows stay", sleep=rests, random=lambda: luck)
        rests.service = service
        await service.run()
        return service

    return asyncio.run(main())


def test_a_service_rests_its_interval_between_runs() -> None:
    rests = Rests(3)
    service = run_for(rests, [None, None, None], Pace(interval=5))
    assert rests.asked == [5, 5, 5]
    assert service.runs == 3


def test_work_may_ask_for_its_next_run_at_once_or_later() -> None:
    rests = Rests(3)
    run_for(rests, [0, 90, None], Pace(interval=5))
    assert rests.asked == [0, 90, 5]


def test_the_rest_is_spread_by_the_given_randomness() -> None:
    rests = Rests(1)
    run_for(rests, [None], Pace(interval=10, jitter=0.2), luck=1.0)
    assert rests.asked == [12]
    assert spread(10, 0.2, 0.0) == 8


def test_an_interval_of_zero_turns_the_service_off_but_run_once_still_works() -> None:
    async def main() -> None:
        async def work() -> float | None:
            return 7

        service = Service("off", work, Pace(interval=0))
        await service.run()
        assert (service.enabled, service.runs) == (False, 0)
        assert await service.run_once() == 7

    asyncio.run(main())


def test_failures_are_survived_with_growing_rests_and_reset_by_a_success(caplog: pytest.LogCaptureFixture) -> None:
    rests = Rests(5)
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        down = OSError("no route")
        service = run_for(rests, [down, down, down, None, down], Pace(interval=2))
    assert rests.asked == [2, 4, 8, 2, 2]
    assert service.failures == 1
    first, second = caplog.records[:2]
    assert first.getMessage() == (
        "pruner failed (OSError: no route), old rows stay; next try in 2.0 s (failure 1 in a row)"
    )
    assert first.exc_info is not None
    assert second.exc_info is None
    assert "pruner works again after 3 failures" in caplog.messages


def test_the_back_off_has_a_ceiling_that_is_never_below_the_interval() -> None:
    assert pause_after_failure(Pace(interval=1, longest=30), 5000, 0.5) == 30
    assert pause_after_failure(Pace(interval=300, longest=30), 9, 0.5) == 300


def test_run_once_hands_errors_to_its_caller() -> None:
    async def work() -> float | None:
        raise LookupError("gone")

    async def main() -> None:
        with pytest.raises(LookupError, match="gone"):
            await Service("s", work, Pace(interval=1)).run_once()

    asyncio.run(main())


def test_a_wake_ends_the_rest_early_and_one_during_the_run_is_kept() -> None:
    async def main() -> None:
        async def work() -> float | None:
            if service.runs == 0:
                service.wake()
            return None

        service = Service("sleepy", work, Pace(interval=3600))
        async with asyncio.TaskGroup() as group:
            group.create_task(service.run())
            await service.tick.wait()
            while service.runs < 2:
                service.tick.clear()
                await service.tick.wait()
            service.tick.clear()
            service.wake()
            await service.tick.wait()
            assert service.runs == 3
            service.stop()

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_stopping_lets_the_run_under_way_finish() -> None:
    async def main() -> None:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def work() -> float | None:
            entered.set()
            await leave.wait()
            return None

        service = Service("slow", work, Pace(interval=3600))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await entered.wait()
            service.stop()
            leave.set()
            await running
        assert service.runs == 1

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_work_that_always_wants_more_gives_way_to_others() -> None:
    async def main() -> None:
        async def work() -> float | None:
            return 0

        service = Service("greedy", work, Pace(interval=1))
        async with asyncio.TaskGroup() as group:
            group.create_task(service.run())
            while service.runs < 5:
                await asyncio.sleep(0)
            service.stop()

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_a_rest_ends_with_its_time() -> None:
    asyncio.run(asyncio.wait_for(sleep_or_wake(0.001, asyncio.Event()), SOON))


def test_a_pace_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="interval"):
        Pace(interval=-1)
    with pytest.raises(ValueError, match="interval"):
        Pace(interval=float("nan"))
    with pytest.raises(ValueError, match="jitter"):
        Pace(interval=1, jitter=1)
