"""What exists elsewhere: asked lazily, asked again on a miss, and trusted while it cannot be reached."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import App
from holdfast.clock import SECOND, ManualClock
from holdfast.errors import InvalidInput, NotInInventory
from holdfast.tasks import Inventory


class Source:
    """Models on a server that may be down."""

    def __init__(self, *names: str) -> None:
        self.names: Iterable[str] = names
        self.down = False
        self.asked = 0

    def fetch(self) -> Iterable[str]:
        self.asked += 1
        if self.down:
            raise ConnectionError("refused")
        return self.names

    async def afetch(self) -> Iterable[str]:
        return self.fetch()


class Stock:
    """An inventory over a source, blocking or async, asked in either way."""

    def __init__(self, source: Source, clock: ManualClock, *, is_async: bool, awaits: bool) -> None:
        self.inventory = Inventory("models", source.afetch if is_async else source.fetch, every=30, clock=clock)
        self._awaits = awaits

    def check(self, name: str) -> None:
        if self._awaits:
            asyncio.run(self.inventory.acheck(name))
        else:
            self.inventory.check(name)


@pytest.fixture
def source() -> Source:
    return Source("llama-7b", "llama-70b", "qwen")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[(False, False), (False, True), (True, False), (True, True)], ids=str)
def stock(request: pytest.FixtureRequest, source: Source, clock: ManualClock) -> Stock:
    is_async, awaits = request.param
    return Stock(source, clock, is_async=is_async, awaits=awaits)


def test_nothing_is_asked_before_it_is_needed_and_then_once_in_a_while(
    stock: Stock, source: Source, clock: ManualClock
) -> None:
    assert source.asked == 0
    for _ in range(3):
        stock.check("qwen")
    assert source.asked == 1
    clock.advance(30)
    stock.check("qwen")
    assert source.asked == 2


def test_a_miss_asks_once_more(stock: Stock, source: Source) -> None:
    stock.check("qwen")
    source.names = ["qwen", "mistral"]
    stock.check("mistral")
    assert source.asked == 2


def test_what_does_not_exist_is_refused_with_its_like(stock: Stock, source: Source) -> None:
    stock.check("qwen")
    with pytest.raises(NotInInventory, match=r"'llama-70b' or 'llama-7b'") as caught:
        stock.check("llama-70")
    assert source.asked == 2
    assert caught.value.code == "not_in_inventory"
    assert set(caught.value.close) == {"llama-70b", "llama-7b"}
    with pytest.raises(NotInInventory):
        stock.check("nothing like it")


def test_the_first_answer_is_answer_enough(stock: Stock, source: Source) -> None:
    with pytest.raises(NotInInventory):
        stock.check("mistral")
    assert source.asked == 1


def test_everything_is_accepted_while_the_source_is_away_and_that_is_said_once(
    stock: Stock, source: Source, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    stock.check("qwen")
    source.down = True
    with caplog.at_level(logging.INFO, "holdfast"):
        for _ in range(3):
            stock.check("mistral")
            clock.advance(60)
        assert stock.inventory.degraded
        assert stock.inventory.names() == {"llama-7b", "llama-70b", "qwen"}
        source.down = False
        clock.advance(60)
        stock.check("qwen")
        with pytest.raises(NotInInventory):
            stock.check("mistral")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "cannot be reached" in said[0]
    assert "again" in said[1]


def test_an_inventory_tells_when_its_source_last_answered(stock: Stock, source: Source, clock: ManualClock) -> None:
    assert stock.inventory.last_poll is None
    stock.check("qwen")
    answered = datetime.fromtimestamp(clock.now() / SECOND, UTC)
    source.down = True
    clock.advance(60)
    stock.check("qwen")
    assert (stock.inventory.degraded, stock.inventory.last_poll) == (True, answered)
    source.down = False
    clock.advance(60)
    stock.check("qwen")
    assert stock.inventory.last_poll == answered + timedelta(seconds=120)


def test_a_source_that_is_away_is_not_asked_for_every_job(stock: Stock, source: Source) -> None:
    source.down = True
    for n in range(10):
        stock.check(f"model-{n}")
    assert source.asked == 1


@pytest.mark.parametrize("answer", ["llama", None, 5])
def test_an_answer_that_is_no_list_is_none(stock: Stock, source: Source, answer: object) -> None:
    source.names = answer  # type: ignore[assignment]
    stock.check("anything")
    assert stock.inventory.degraded


def test_a_source_that_hangs_stops_nobody(clock: ManualClock) -> None:
    never = threading.Event()

    def fetch() -> list[str]:
        never.wait()
        return []

    inventory = Inventory("models", fetch, timeout=0.05, clock=clock)
    inventory.check("anything")
    assert inventory.degraded
    never.set()


def test_many_who_ask_at_once_ask_once(clock: ManualClock) -> None:
    go, asked = threading.Event(), []

    def fetch() -> list[str]:
        asked.append(1)
        go.wait()
        return ["qwen"]

    inventory = Inventory("models", fetch, clock=clock)
    threads = [threading.Thread(target=inventory.check, args=["qwen"]) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert len(asked) <= 2


def test_an_enqueue_that_is_cancelled_says_nothing_about_the_source(clock: ManualClock) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def fetch() -> list[str]:
            begun.set()
            await asyncio.Event().wait()
            return []

        inventory = Inventory("models", fetch, clock=clock)
        asking = asyncio.create_task(inventory.acheck("qwen"))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not inventory.degraded

    asyncio.run(main())


def test_a_task_checks_the_affinity_of_its_jobs(source: Source) -> None:
    app = App(":memory:")
    models = app.inventory("models", source.fetch, every=30)

    @app.task(inventory=models)
    def ask(prompt: str) -> None: ...

    ask.enqueue("no affinity, nothing to look up")
    ask.options(affinity="qwen").enqueue("hello")
    with pytest.raises(NotInInventory):
        ask.options(affinity="mistral").enqueue("hello")
    with pytest.raises(NotInInventory):
        app.enqueue_many([ask.options(affinity=name).job("hello") for name in ("qwen", "mistral")])
    with pytest.raises(NotInInventory), app.flow("talk") as flow:
        flow.add(ask.options(affinity="mistral").job("hello"))
    with pytest.raises(NotInInventory):
        asyncio.run(ask.options(affinity="mistral").aenqueue("hello"))
    assert sum(count.jobs for count in app.jobs.counts()) == 2
    app.close()


def test_an_inventory_needs_a_function() -> None:
    app = App(":memory:")
    with pytest.raises(InvalidInput):
        app.inventory("models", ["qwen"])  # type: ignore[arg-type]
