"""Actors on Postgres, each on a connection of its own, that pause before every statement and every commit: a seeded
scheduler lets one go on at a time. Whoever waits for a lock is left waiting, and the others go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from holdfast.clock import SECOND
from holdfast.errors import HoldfastError, StorageBusy
from holdfast.storage.ops.store import verify
from holdfast.storage.port import Files, Op, Params, Row, Tx, Value
from holdfast.storage.statements import Statement
from tests.conformance.world import World
from tests.patience import SOON

from .acts import Act, Actor, Path, Scene, broken
from .orders import drain, overslept, waits_for_people

TRIES = 8
_LIVE = "select id, state, reason, due from holdfast_any_job where finished_at is null"


@dataclass
class Stop:
    """Where one actor pauses."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """It has paused, or is done."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    done: bool = False

    async def pause(self) -> None:
        self.ready.set()
        await self.go.wait()
        self.go.clear()

    def release(self) -> None:
        self.ready.clear()
        self.go.set()


class PausingTx:
    """Waits for its turn before every statement."""

    def __init__(self, tx: Tx, stop: Stop) -> None:
        self._tx = tx
        self._stop = stop

    @property
    def files(self) -> Files | None:
        return self._tx.files

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        await self._stop.pause()
        return await self._tx.one(statement, **params)

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        await self._stop.pause()
        return await self._tx.all(statement, **params)

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        await self._stop.pause()
        return await self._tx.each(statement, rows, **common)

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        await self._stop.pause()
        return await self._tx.count(statement, names, rows)

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        await self._stop.pause()
        await self._tx.copy(statement, rows)

    def notify(self, topic: str) -> None:
        self._tx.notify(topic)


@dataclass
class Play:
    """Many schedules of one scene, on connections that stay open."""

    world: World
    scene: Scene
    waits: int = 0
    """How often an actor waited for another's lock."""
    repeats: int = 0
    """How often a transaction was given up, by a deadlock say, and made again."""

    async def run(self, connections: Sequence[Any], observer: Any, seed: int) -> None:
        self.world.wipe()
        path = Path(self.world.now)
        for act in self.scene.before:
            await self._act(connections[0], act, path, None)
        stops = [Stop() for _ in self.scene.actors]
        tasks = [
            asyncio.create_task(self._player(connection, actor, path, stop))
            for connection, actor, stop in zip(connections, self.scene.actors, stops, strict=False)
        ]
        try:
            await self._schedule(random.Random(seed), stops, connections, observer)
        finally:
            for task in tasks:
                task.cancel()
            told = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [one for one in told if isinstance(one, Exception)]
        fault = str(errors) if errors else self.world.read(broken, path) or self._fault()
        assert fault is None, f"{self.scene.name}, seed {seed}: {fault}; {path.log}"

    async def _schedule(
        self, dice: random.Random, stops: list[Stop], connections: Sequence[Any], observer: Any
    ) -> None:
        while not all(stop.done for stop in stops):
            ready = [n for n, stop in enumerate(stops) if stop.ready.is_set() and not stop.done]
            if not ready:
                waiting = [asyncio.create_task(stop.ready.wait()) for stop in stops if not stop.done]
                done, rest = await asyncio.wait(waiting, timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
                for task in rest:
                    task.cancel()
                assert done, "everybody waits for somebody"
                continue
            n = dice.choice(ready)
            stops[n].release()
            await self._until_it_stands(stops[n], connections[n], observer)

    async def _until_it_stands(self, stop: Stop, connection: Any, observer: Any) -> None:
        """It has come to its next stop, or waits for a lock."""
        while True:
            try:
                await asyncio.wait_for(stop.ready.wait(), 0.004)
            except TimeoutError:
                pid = connection.info.backend_pid
                found = await (await observer.execute("select pg_blocking_pids(%s)", [pid])).fetchone()
                if found[0] and not stop.ready.is_set():
                    self.waits += 1
                    return
            else:
                return

    async def _player(self, connection: Any, actor: Actor, path: Path, stop: Stop) -> None:
        try:
            for act in actor:
                await self._act(connection, act, path, stop)
        finally:
            stop.done = True
            stop.ready.set()

    async def _act(self, connection: Any, act: Act, path: Path, stop: Stop | None) -> None:
        """One transaction; one that was given up by the database is made again, as a store does."""
        for _ in range(TRIES):
            trial = Path(path.now, dict(path.held))
            try:
                await connection.execute("select 1")  # psycopg begins by itself
                await self.world.store.awithin(connection, _paused(act, trial, stop))
                if stop is not None:
                    await stop.pause()
                await connection.commit()
            except StorageBusy:
                await connection.rollback()
                self.repeats += 1
                continue
            except HoldfastError:
                await connection.rollback()
                return
            self.world.clock.advance((trial.now - path.now) / SECOND if trial.now > self.world.now else 0)
            path.now = self.world.now
            path.held.update(trial.held)
            path.log += trial.log
            return
        raise AssertionError(f"given up {TRIES} times")

    def _fault(self) -> str | None:
        found = [one for one in self.world.read(verify, []) if one.broken_by]
        for _ in range(3):
            self.world.clock.advance(3600)
            self.world.run(drain)
        found += [one for one in self.world.read(verify, []) if one.broken_by]
        left = [row for row in self.world.sql(_LIVE) if not waits_for_people(row)] + self.world.read(overslept)
        return f"{found} {left}" if found or left else None


def _paused(act: Act, trial: Path, stop: Stop | None) -> Op[None]:
    return Op(lambda tx: act(tx if stop is None else PausingTx(tx, stop), trial))


def play(world: World, dsn: str, scenes: Sequence[Scene], seeds: Sequence[int]) -> list[Play]:
    """So many schedules of each scene."""
    return asyncio.run(_play(world, dsn, scenes, seeds))


async def _play(world: World, dsn: str, scenes: Sequence[Scene], seeds: Sequence[int]) -> list[Play]:
    first, second, observer = [await psycopg.AsyncConnection.connect(dsn) for _ in range(3)]
    try:
        await observer.set_autocommit(True)
        for connection in (first, second):
            await connection.execute("set deadlock_timeout = '20ms'")
            await connection.commit()
        plays = [Play(world, scene) for scene in scenes]
        for one in plays:
            for seed in seeds:
                await one.run((first, second), observer, seed)
        return plays
    finally:
        for connection in (first, second, observer):
            await connection.close()
