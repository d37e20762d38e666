"""Every order of short transactions, on a database in memory: a walk over the tree of orders that steps back by
savepoints, so that a common beginning is run once."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from holdfast.model.outcomes import Done, Finish
from holdfast.rules.signals import chosen
from holdfast.storage.ops.jobs import claims, finishing
from holdfast.storage.ops.signals import suspension
from holdfast.storage.ops.store import verify
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Tx
from holdfast.storage.sqlite import schema
from holdfast.storage.sqlite.connect import settle
from holdfast.storage.sqlite.tx import SqliteTx
from holdfast.storage.statements import Statement
from holdfast.storage.step import step
from tests.conformance.world import claim_request, worker_spec

from .acts import Act, Actor, Path, Scene, attempt, broken, sweep

_OPEN = Statement("open", *["update holdfast_queue set state = 'active'"] * 2)
_SUSPENDED = Statement("suspended", *["select id from holdfast_any_job where state = 'suspended' order by id"] * 2)
START = 1_700_000_000_000_000
_TABLES = (
    "job",
    "live",
    "ended",
    "worker",
    "lane",
    "attempt",
    "edge",
    "join",
    "hop",
    "flow",
    "wait",
    "signal",
    "step",
    "dedupe",
    "queue",
)


@dataclass
class Walk:
    """A walk and what it came to."""

    scene: Scene
    orders: int = 0
    acts: int = 0
    seen: set[int] = field(default_factory=set)
    """States of the store that were found in order; each is looked at once."""

    def __post_init__(self) -> None:
        self.database = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
        settle(self.database, durable=False)
        schema.upgrade(self.database, START)
        self._cursor = self.database.cursor()
        self._trail: list[int] = []

    def run(self) -> Walk:
        self.database.execute("begin immediate")
        path = Path(START)
        for act in self.scene.before:
            self._act(act, path)
        self._go(path, self.scene.actors)
        self.database.execute("rollback")
        self.database.close()
        return self

    def _go(self, path: Path, left: tuple[Actor, ...]) -> None:
        if not any(left):
            self.orders += 1
            self._look(path)
        for n, acts in enumerate(left):
            if not acts:
                continue
            depth, further = f"s{len(self._trail)}", path.copy()
            self._cursor.execute(f"savepoint {depth}")
            self._trail.append(n)
            self._act(acts[0], further)
            self._go(further, (*left[:n], acts[1:], *left[n + 1 :]))
            self._trail.pop()
            self._cursor.execute(f"rollback to {depth}")
            self._cursor.execute(f"release {depth}")

    def _act(self, act: Act, path: Path) -> None:
        self.acts += 1
        trial = path.copy()
        self._cursor.execute("savepoint act")
        if step(attempt(act, self._tx(path), trial)):
            path.now, path.held, path.log = trial.now, trial.held, trial.log
        else:
            self._cursor.execute("rollback to act")
        self._cursor.execute("release act")

    def _look(self, path: Path) -> None:
        """The laws of this order; once for each state what must hold in it, and that it can be brought to an end."""
        fault = step(broken(self._tx(path), path))
        state = self._state(path)
        if fault is None and state not in self.seen:
            self.seen.add(state)
            fault = self._fault(path)
        assert fault is None, f"{self.scene.name}, order {''.join(map(str, self._trail))}: {fault}; {path.log}"

    def _fault(self, path: Path) -> str | None:
        if found := [one for one in step(verify(self._tx(path), [])) if one.broken_by]:
            return str(found)
        self._cursor.execute("savepoint heal")
        left = heal(self, path.copy())
        found = [one for one in step(verify(self._tx(path), [])) if one.broken_by]
        self._cursor.execute("rollback to heal")
        self._cursor.execute("release heal")
        if left or found:
            return f"it does not come to an end: {left} {found}"
        return None

    def _tx(self, path: Path) -> Tx:
        return SqliteTx(self._cursor, path.now)

    def _state(self, path: Path) -> int:
        rows = [self._cursor.execute(f"select * from holdfast_{table}").fetchall() for table in _TABLES]
        return hash((path.now, str(rows)))


def heal(walk: Walk, path: Path) -> list[tuple[str, ...]]:
    """Nothing disturbs any more: let time pass and one good worker run what there is; what has not ended then."""
    for _ in range(6):
        path.now += 3_600_000_000
        step(drain(walk._tx(path)))
    live = "select id, state, reason, due from holdfast_any_job where finished_at is null"
    rows = walk.database.execute(live).fetchall()
    return [*(row for row in rows if not waits_for_people(row)), *step(overslept(walk._tx(path)))]


def waits_for_people(row: tuple[str, ...]) -> bool:
    return row[1] == "suspended" or (row[1] == "blocked" and row[2] in ("operator", "auth"))


async def overslept(tx: Tx) -> list[tuple[str, ...]]:
    """Suspended jobs for which what they wait for has come."""
    found = []
    for (id,) in await tx.all(_SUSPENDED):
        wait, mail = await suspension.awaited(tx, id), await suspension.unread(tx, [id])
        if wait is not None and chosen(wait.terms.condition, mail.get(id, [])) is not None:
            found.append((id, "suspended", wait.key))
    return found


async def drain(tx: Tx) -> None:
    for worker in await workers.list_workers(tx):
        while (await workers.rescue(tx, worker.id)).more:
            pass
    await tx.one(_OPEN)
    await workers.register(tx, worker_spec("healer"))
    await sweep(tx, Path(0))
    for _ in range(4):
        jobs = await claims.claim(tx, claim_request("healer", 10, token="t", suspects=10, queues=("default", "other")))
        await finishing.finish(tx, "healer", [Finish(job.id, job.epoch, Done("1")) for job in jobs])
    await sweep(tx, Path(0))
    assert await workers.deregister(tx, "healer")
