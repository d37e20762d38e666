"""What waiting for each other costs: `python -m benchmarks.flows [--members N] [--chain N] [--store sqlite|postgres]`.

Independent members under one fan-in beside a plain drain of as many jobs, and the time per hop of a long chain.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import holdfast

from .raw_postgres import PostgresBench
from .raw_sqlite import SqliteBench
from .stores import Bench, folder, server

_CONCURRENCY: Final = 100


def main() -> None:
    options = _options()
    if options.store in ("both", "sqlite"):
        with folder() as place:
            _report(SqliteBench(Path(place)), options)
    if options.store in ("both", "postgres"):
        with server() as dsn:
            _report(PostgresBench(dsn), options)


def _report(bench: Bench, options: argparse.Namespace) -> None:
    members, length = options.members, options.chain
    plain = max(_measured(bench, _plain, members) for _ in range(options.runs))
    fanned = max(_measured(bench, _fan_in, members) for _ in range(options.runs))
    taking = max(_measured(bench, _fan_in_with_results, members) for _ in range(options.runs))
    hop = min(1000 / _measured(bench, _chain, length) for _ in range(options.runs))
    print(f"{bench.name}: plain drain {plain:,.0f}/s", flush=True)
    print(f"  under one fan-in    {fanned:,.0f}/s, {fanned / plain:.0%} of that")
    print(f"  with their results  {taking:,.0f}/s, {taking / plain:.0%}")
    print(f"  a chain of {length:,}: {hop:.2f} ms per hop", flush=True)


Ended = Callable[[], Awaitable[None]]
Work = Callable[["Shop", int], Awaitable[Ended]]


class Shop:
    """An app with two tasks, which counts how often the first has run."""

    def __init__(self, url: str) -> None:
        self.app = holdfast.App(url)
        self.ran = 0
        self.nothing = self.app.task(name="nothing")(self._nothing)
        self.total = self.app.task(name="total")(self._total)

    async def _nothing(self) -> int:
        self.ran += 1
        return 1

    async def _total(self, numbers: list[int]) -> int:
        return sum(numbers)


def _measured(bench: Bench, work: Work, n: int) -> float:
    """Jobs per second, from the moment a paused queue is opened to an idle worker."""
    with bench.fresh() as url:
        return asyncio.run(_run(Shop(url), work, n))


async def _run(shop: Shop, work: Work, n: int) -> float:
    app = shop.app
    app.queues.pause("default")
    ended = await work(shop, n)
    async with app.worker(concurrency=_CONCURRENCY):
        start = time.perf_counter()
        await app.queues.aresume("default")
        await ended()
        took = time.perf_counter() - start
    app.close()
    return n / took


async def _plain(shop: Shop, n: int) -> Ended:
    await shop.app.aenqueue_many([shop.nothing.job() for _ in range(n)])
    live = ("ready", "running", "delayed")

    async def ended() -> None:
        while shop.ran < n or any(count.state in live for count in await shop.app.jobs.acounts()):
            await asyncio.sleep(0.01)

    return ended


async def _fan_in(shop: Shop, n: int) -> Ended:
    async with shop.app.flow("fan-in") as flow:
        several = flow.map(lambda _: shop.nothing.job(), range(n - 1))
        flow.add(shop.nothing.job(), after=several)
    return _end_of(flow)


async def _fan_in_with_results(shop: Shop, n: int) -> Ended:
    async with shop.app.flow("fan-in") as flow:
        several = flow.map(lambda _: shop.nothing.job(), range(n - 1))
        flow.add(shop.total.job(several.output))
    return _end_of(flow)


async def _chain(shop: Shop, n: int) -> Ended:
    async with shop.app.flow("chain") as flow:
        last = flow.add(shop.nothing.job())
        for _ in range(n - 1):
            last = flow.add(shop.nothing.job(), after=last)
    return _end_of(flow)


def _end_of(flow: holdfast.Flow) -> Ended:
    async def ended() -> None:
        state = await flow.await_(timeout=600)
        assert state == "succeeded", state

    return ended


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flows", description=__doc__)
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--chain", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
