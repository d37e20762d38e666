"""A worker stays with what it has loaded, and yet lets nobody wait for longer than it was told."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict

from holdfast import Context
from holdfast.tasks.task import Task
from tests.patience import SOON

from . import loading_tasks
from .worker_kit import Shop, live

MODELS = ("llama", "qwen", "whisper")


class Models:
    """Which model each worker has in hand, and how often it had to load another."""

    def __init__(self) -> None:
        self.order: dict[str, list[str]] = defaultdict(list)

    def use(self, worker: str, model: str) -> None:
        self.order[worker].append(model)

    @property
    def switches(self) -> int:
        """Loads, the first one included."""
        return sum(1 for order in self.order.values() for a, b in zip(["", *order], order, strict=False) if a != b)

    @property
    def used(self) -> list[str]:
        return [model for order in self.order.values() for model in order]


def asking(shop: Shop, models: Models) -> Task[[str], None]:
    @shop.app.task
    async def ask(ctx: Context, model: str) -> None:
        models.use(ctx.job.worker, model)
        await asyncio.sleep(0)

    return ask


async def drained(shop: Shop) -> None:
    while any(count.state in ("ready", "running") for count in await shop.app.jobs.acounts()):
        await asyncio.sleep(0.02)


def test_mixed_jobs_of_three_models_switch_at_most_a_twentieth_as_often_as_first_in_first_out(shop: Shop) -> None:
    wanted = random.Random(7).choices(MODELS, k=3_000)
    fifo, kept = (asyncio.run(run_all(shop, wanted, has_affinity=has)) for has in (False, True))
    for models in (fifo, kept):
        assert Counter(models.used) == Counter(wanted)
        assert len(models.order) == 2
    assert fifo.switches > 1_000
    assert kept.switches <= fifo.switches * 0.05


async def run_all(shop: Shop, wanted: list[str], *, has_affinity: bool) -> Models:
    models = Models()
    shop.app._tasks.clear()
    ask = asking(shop, models)
    calls = [ask.options(affinity=model) if has_affinity else ask for model in wanted]
    await shop.app.aenqueue_many([call.job(model) for call, model in zip(calls, wanted, strict=True)])
    async with shop.working(concurrency=4), shop.working(concurrency=4):
        await drained(shop)
    return models


@live
async def test_a_model_that_is_resident_at_the_start_comes_first(shop: Shop) -> None:
    models = Models()
    ask = asking(shop, models)
    jobs = [await ask.options(affinity=model).aenqueue(model) for model in ("llama", "qwen", "llama", "qwen")]
    async with shop.working(concurrency=1, resident=("qwen",)):
        for job in jobs:
            await job.await_(SOON)
    assert models.used == ["qwen", "qwen", "llama", "llama"]


@live
async def test_a_worker_runs_one_affinity_at_a_time_and_loads_the_next_when_the_last_job_of_it_ends(shop: Shop) -> None:
    running, most = Counter[str](), set[tuple[str, ...]]()
    go = asyncio.Event()

    @shop.app.task
    async def ask(model: str) -> None:
        running[model] += 1
        most.add(tuple(sorted(running)))
        await go.wait()
        running[model] -= 1
        del running[model]

    jobs = [await ask.options(affinity=model).aenqueue(model) for model in ("llama", "qwen")]
    async with shop.working(concurrency=10):
        while not running:
            await asyncio.sleep(0)
        go.set()
        for job in jobs:
            await job.await_(SOON)
    assert most == {("llama",), ("qwen",)}


@live
async def test_a_worker_with_room_for_two_runs_two_affinities_at_once(shop: Shop) -> None:
    both = asyncio.Event()
    running: set[str] = set()

    @shop.app.task
    async def ask(model: str) -> None:
        running.add(model)
        if len(running) == 2:
            both.set()
        await both.wait()

    jobs = [await ask.options(affinity=model).aenqueue(model) for model in ("llama", "qwen")]
    async with shop.working(concurrency=10, residents=2) as worker:
        for job in jobs:
            await job.await_(SOON)
        assert set(worker.runner.affinities.resident) == {"llama", "qwen"}


@live
async def test_a_job_without_an_affinity_runs_beside_any(shop: Shop) -> None:
    go = asyncio.Event()

    @shop.app.task
    async def ask(model: str) -> None:
        await go.wait()

    @shop.app.task
    async def plain() -> None:
        go.set()

    jobs = [await ask.options(affinity=model).aenqueue(model) for model in ("llama", "qwen")]
    async with shop.working(concurrency=3):
        await (await plain.aenqueue()).await_(SOON)
        for job in jobs:
            await job.await_(SOON)


@live
async def test_a_higher_priority_is_worth_a_load(shop: Shop) -> None:
    models = Models()
    ask = asking(shop, models)
    jobs = [await ask.options(affinity="llama").aenqueue("llama") for _ in range(3)]
    jobs.append(await ask.options(affinity="qwen", priority=1).aenqueue("qwen"))
    async with shop.working(concurrency=1, resident=("llama",)):
        for job in jobs:
            await job.await_(SOON)
    assert models.used == ["qwen", "llama", "llama", "llama"]


@live
async def test_a_handler_tells_what_it_has_loaded(shop: Shop) -> None:
    models = Models()
    ask = asking(shop, models)

    @shop.app.task(priority=9)
    async def load(ctx: Context) -> None:
        ctx.loaded("qwen")

    first = await load.aenqueue()
    jobs = [await ask.options(affinity=model).aenqueue(model) for model in ("llama", "qwen", "llama")]
    async with shop.working(concurrency=1) as worker:
        for job in [first, *jobs]:
            await job.await_(SOON)
        (known,) = await shop.app.workers.alist()
        assert known.resident == worker.runner.affinities.resident == ("llama",)
    assert models.used == ["qwen", "llama", "llama"]


@live
async def test_a_handler_in_a_child_process_tells_it_too(small_shop: Shop) -> None:
    app = small_shop.borrow(loading_tasks.app)
    job = await app.aenqueue(app.tasks["load"].job("qwen"))
    async with small_shop.working(concurrency=1) as worker:
        await job.await_(SOON)
        assert worker.runner.affinities.resident == ("qwen",)


@live
async def test_jobs_of_another_affinity_wait_no_longer_than_the_bound_while_the_resident_one_never_ends(
    shop: Shop,
) -> None:
    """Two jobs of the resident model come in for each that is done; each takes a second of the test's clock."""
    waits: list[float] = []
    started: asyncio.Queue[float] = asyncio.Queue()

    @shop.app.task
    async def ask(ctx: Context, model: str) -> None:
        if model == "llama":
            await again.aenqueue("llama")
            await again.aenqueue("llama")
        else:
            waits.append((shop.clock.now() - ctx.job.created_at) / 1e6)
        shop.clock.advance(1)
        started.put_nowait(0)

    again = ask.options(affinity="llama")
    for _ in range(5):
        await again.aenqueue("llama")
    async with shop.working(concurrency=1, affinity_wait=20.0, lease=3600.0):
        for _ in range(6):
            job = await ask.options(affinity="qwen").aenqueue("qwen")
            await job.await_(SOON)
    # One job of the resident model may have been claimed just before.
    assert len(waits) == 6
    assert max(waits) <= 20 + 2


@live
async def test_without_affinities_a_claim_runs_the_same_statements_as_ever(shop: Shop) -> None:
    @shop.app.task
    async def plain() -> None: ...

    async with shop.working() as worker:
        await (await plain.aenqueue()).await_(SOON)
        room = worker.runner.room()
        assert room is not None
        assert room.routing is None
