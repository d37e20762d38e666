"""A store and the model side by side: every call is made of both, and both must answer and end up alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.signals import Condition, Wait
from holdfast.storage.ops.budgets import budgets
from holdfast.storage.ops.budgets.budgets import Terms
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op, Tx
from holdfast.storage.statements import Statement
from tests.conformance.flow_kit import drain
from tests.conformance.world import World, worker_spec

from .check import require
from .facts import read_facts
from .model import Job, Model
from .model.state import COLUMNS
from .model.state import Worker as ModelWorker

LIMIT = 10
_JOBS = Statement("jobs", *[f"select {COLUMNS} from holdfast_any_job order by id"] * 2)
_SET_ASIDE = "coalesce((select sum(amount) from holdfast_reservation), 0)"
_LINES = Statement("lines", *[f"select spent, hard_breaches, {_SET_ASIDE} from holdfast_budget_line"] * 2)
_FLOWS = Statement("flows", *["select id, outcome from holdfast_flow order by id"] * 2)


class Beside:
    """What the rules of the machine work with."""

    def __init__(self, world: World) -> None:
        world.wipe()
        self.world = world
        self.model = Model(world.now)
        self.model.purse.limit = LIMIT
        self.made = 0
        self.steps = 0
        self.handles: list[tuple[str, str, int]] = []
        """Owner, job and epoch of every claim, those included that are worthless by now."""
        world.run(budgets.ensure, "", "team", Terms(limits={"tokens": LIMIT}, soft={}), origin="code")
        for _ in range(2):
            self.register()

    # -- both

    def both(self, real: Callable[[], Any], ideal: Callable[[], Any]) -> Any:
        """Make a call of both. Errors are answers: the same kind of both."""
        self.model.now = self.world.now
        expected, got = _attempt(ideal), _attempt(real)
        assert got == expected, f"the store answered {got}, the model {expected}"
        self.steps += 1
        if self.steps % 15 == 0:
            self.verify()
        if self.model.flows or self.model.waits:
            drain(self.world)
        return got

    def run(self, op: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
        return lambda: self.world.run(op, *args, **options)

    def silent(self, op: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], None]:
        """The same where the answer does not matter."""

        def call() -> None:
            self.world.run(op, *args, **options)

        return call

    def compare(self) -> None:
        """Every job, every flow and the budget."""
        rows, flows, line = self.world.store.read(Op(_look))
        mine = {job.id: job.row() for job in self.model.all()}
        found = {row[0]: tuple(row) for row in rows}
        if found != mine:
            raise AssertionError("\n".join(_differences(found, mine)))
        assert dict(flows) == {id: flow.outcome for id, flow in self.model.flows.items()}
        purse = self.model.purse
        assert tuple(map(int, line)) == (purse.spent, purse.breaches, purse.reserved)

    def verify(self) -> None:
        """What must hold in every store."""
        require(read_facts(self.world.store))

    # -- things to work with

    def register(self) -> str:
        self.made += 1
        spec = worker_spec(f"w{self.made}")
        self.world.run(workers.register, spec)
        self.model.workers[spec.id] = ModelWorker(spec.id, "alive", self.world.now + spec.lease)
        return spec.id

    def new_id(self) -> str:
        self.made += 1
        return f"{self.made:026d}"

    def pick(self, n: int, *states: str) -> Job:
        """One of the jobs, the newest by 0; if there is one, in one of these states."""
        found = [job for job in self.model.all() if not states or job.state in states] or list(self.model.all())
        return sorted(found, key=lambda job: job.id, reverse=True)[n % len(found)]

    def worker(self, n: int) -> str:
        """One that is registered, and one more where none could work."""
        if not any(worker.state == "alive" for worker in self.model.workers.values()):
            self.register()
        ids = sorted(self.model.workers, key=lambda id: (self.model.workers[id].state != "alive", id))
        return ids[n // 2 % len(ids)]

    def live_handles(self) -> list[tuple[str, str, int]]:
        jobs = self.model.jobs
        return [one for one in self.handles[-30:] if one[1] in jobs and jobs[one[1]].owner == one[0]
                and jobs[one[1]].epoch == one[2]]  # fmt: skip

    def wait(self, n: int, job_id: str) -> Wait:
        """For a signal, for the end of another job, or for an operator; some not for ever."""
        timeout = (None, 4_000_000)[n % 2]
        on_timeout: Any = ("fail", "cancel", "expire", "resume", "escalate")[n % 5]
        rest: dict[str, Any] = {"timeout": timeout, "on_timeout": on_timeout}
        if n % 3 == 0:
            return Wait(
                key=f"wait:jobs#{n % 2}",
                reason="jobs",
                jobs=(self.pick(n // 3).id if self.model.jobs else job_id,),
                **rest,
            )
        names = ("go", "stop")[: 1 + n % 2]
        return Wait(key=f"wait:go#{n % 4}", reason="signal", condition=Condition(names=names), **rest)


def _attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except HoldfastError as error:
        return type(error)


async def _look(tx: Tx) -> tuple[Any, Any, Any]:
    return await tx.all(_JOBS), await tx.all(_FLOWS), await tx.one(_LINES)


def _differences(found: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    names = [part.strip().split(" ")[-1] for part in _names()]
    told = [f"only in the store: {found[id]}" for id in sorted(set(found) - set(mine))]
    told += [f"only in the model: {mine[id]}" for id in sorted(set(mine) - set(found))]
    for id in sorted(set(found) & set(mine)):
        pairs = zip(names, found[id], mine[id], strict=True)
        told += [f"{id} {name}: the store has {a!r}, the model {b!r}" for name, a, b in pairs if a != b]
    return told


def _names() -> list[str]:
    return [
        "id", "state", "due", "reason", "queue", "payload", "priority", "rank", "not_before", "attempts",
        "past_attempts", "crashes", "losses", "suspect", "alone", "generation", "epoch", "owner", "cancel",
        "holds_key", "started_at", "finished_at", "finished_epoch", "deadline", "linked", "lane",
    ]  # fmt: skip
