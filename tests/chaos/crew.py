"""The state machine, second part: what workers do. They claim, finish under handles that may be stale, beat, come,
stop, are lost and rescued, and set parts of a budget aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.model.jobs import Claimed
from holdfast.model.limits import ActiveLimits
from holdfast.model.outcomes import (  # fmt: skip
    Cancelled,
    Done,
    Expired,
    Failed,
    Finish,
    Outcome,
    Parked,
    Released,
    Retry,
    Snoozed,
    Suspended,
    Throttled,
)
from holdfast.model.routing import Route
from holdfast.storage.ops.budgets import reservations
from holdfast.storage.ops.budgets.reservations import Runner, Wish
from holdfast.storage.ops.jobs import claims, finishing
from holdfast.storage.ops.workers import workers
from tests.conformance.world import ERROR, claim_request

from .acting import FLIP, PICK, SMALL, act
from .callers import QUEUES, Callers
from .model import runs

KINDS, WORKERS = range(16), range(6)


class Crew(Callers):
    """Workers beside the callers."""

    def has_handles(self) -> bool:
        return bool(self.b.handles)

    def is_at_work(self) -> bool:
        return bool(self.b.live_handles())

    @act(w=WORKERS, n=range(1, 7), suspects=SMALL, alone=FLIP)
    def claim(self, w: int, n: int, suspects: int, alone: bool) -> None:
        self.turn_of(self.b.worker(w), [], n, suspects, alone)

    @act(w=WORKERS, kind=KINDS, n=PICK)
    def run_one(self, w: int, kind: int, n: int) -> None:
        """Claim one job and finish it at once."""
        owner, before = self.b.worker(w), len(self.b.handles)
        self.turn_of(owner, [], 1, 1, False)
        if len(self.b.handles) > before:
            self.finish_as(owner, [(*self.b.handles[-1][1:], kind, n)])

    @act(is_at_work, h=PICK, n=PICK, kind=KINDS)
    def finish(self, h: int, n: int, kind: int) -> None:
        owner, job_id, epoch = self.b.live_handles()[-1 - h % len(self.b.live_handles())]
        self.finish_as(owner, [(job_id, epoch, kind, n)])

    @act(has_handles, h=PICK, n=PICK, m=PICK, kind=KINDS, claims=FLIP)
    def finish_several(self, h: int, n: int, m: int, kind: int, claims: bool) -> None:
        """Handles of one worker, of which any may be stale; perhaps with a claim in the same commit."""
        handles = self.b.handles
        owner, job_id, epoch = handles[-1 - h % len(handles)]
        others = {id: at for whose, id, at in handles[-8:] if whose == owner and id != job_id}
        items = [(job_id, epoch, kind, n), *((id, at, kind + m, m) for id, at in list(others.items())[: m % 3])]
        if claims:
            self.turn_of(owner, self.finishes(items), 3, 1, False)
        else:
            self.finish_as(owner, items)

    @act(is_at_work, h=PICK, n=PICK)
    def suspend(self, h: int, n: int) -> None:
        owner, job_id, epoch = self.b.live_handles()[-1 - h % len(self.b.live_handles())]
        self.finish_as(owner, [(job_id, epoch, 12, n)])

    def finish_as(self, owner: str, items: Sequence[tuple[str, int, int, int]]) -> None:
        b, finishes = self.b, self.finishes(items)
        b.both(b.run(finishing.finish, owner, finishes), lambda: runs.finish(b.model, owner, finishes))

    def finishes(self, items: Sequence[tuple[str, int, int, int]]) -> list[Finish]:
        return [Finish(job_id, epoch, self.outcome(kind, n, job_id)) for job_id, epoch, kind, n in items]

    def turn_of(self, owner: str, items: Sequence[Finish], n: int, suspects: int, alone: bool) -> None:
        b = self.b
        tiers, standing = [[Route(queue) for queue in QUEUES]], ActiveLimits(verbose_queues=frozenset(QUEUES))
        request = claim_request(owner, n, tiers=tiers, suspects=suspects, alone=alone, standing=standing)
        taken: list[Claimed] = []

        def real() -> Any:
            turn = b.world.run(claims.turn, owner, items, request)
            taken.extend(turn.claimed)
            return turn.verdicts, [(job.id, job.epoch, job.attempt) for job in turn.claimed]

        def ideal() -> Any:
            verdicts, jobs = runs.turn(b.model, owner, items, QUEUES, n, suspects, alone)
            return verdicts, [(job.id, job.epoch, job.attempts) for job in jobs]

        b.both(real, ideal)
        b.handles += [(owner, job.id, job.epoch) for job in taken]

    def outcome(self, kind: int, n: int, job_id: str) -> Outcome:
        job = self.b.model.jobs.get(job_id)
        spent = job is not None and job.attempts >= job.max_attempts
        delay = (0, 2_000_000, 7_000_000)[n % 3]
        short = job_id in self.b.model.purse.short
        choices: tuple[Outcome, ...] = (
            Done("1"), Done("2"), Done("3"), Retry(delay, ERROR), Retry(delay, ERROR, "crashed", convicts=True),
            Failed("permanent", ERROR), Snoozed(delay), Throttled(delay, ERROR),
            Parked("budget_exhausted" if short else "auth", ERROR), Released("shutdown"), Cancelled("asked"), Expired(),
            Suspended(self.b.wait(n, job_id)), Suspended(self.b.wait(n + 1, job_id)),
        )  # fmt: skip
        chosen = choices[kind % len(choices)]
        return Failed("exhausted", ERROR) if spent and isinstance(chosen, Retry) else chosen

    @act(w=WORKERS)
    def beat(self, w: int) -> None:
        b, who = self.b, self.b.worker(w)

        def real() -> Any:
            return {(job.id, job.epoch, job.cancel_requested) for job in b.world.run(workers.beat, who)}

        b.both(real, lambda: {(job.id, job.epoch, job.cancel_requested) for job in runs.beat(b.model, who)})

    @act(w=WORKERS, how=WORKERS)
    def come_or_go(self, w: int, how: int) -> None:
        b, who = self.b, self.b.worker(w)
        if how == 0:
            b.both(b.run(workers.deregister, who), lambda: runs.deregister(b.model, who))
        elif how == 1:
            b.both(b.run(workers.stop, who), lambda: runs.stop(b.model, who))
        elif len(b.model.workers) < 5:
            b.register()

    @act(w=WORKERS, certain=FLIP, later=FLIP)
    def rescue(self, w: int, certain: bool, later: bool) -> None:
        b, who = self.b, self.b.worker(w)
        if later:
            b.world.clock.advance(31)

        def real() -> Any:
            page = b.world.run(workers.rescue, who, certain=certain)
            return page.rescued, page.more

        b.both(real, lambda: runs.rescue(b.model, who, certain=certain))

    @act(has_handles, h=PICK, amount=range(1, 8), hold="xy", settles=FLIP)
    def budget(self, h: int, amount: int, hold: str, settles: bool) -> None:
        b = self.b
        handles = b.live_handles() or b.handles
        owner, job_id, epoch = handles[-1 - h % len(handles)]
        run, wish = Runner(owner, job_id, epoch), Wish(hold, "team", {"tokens": amount})
        if settles:

            async def settle(tx: Any) -> None:
                await reservations.settle(tx, run, await reservations.own_job(tx, run), wish)

            b.both(b.run(settle), lambda: runs.settle(b.model, owner, job_id, epoch, hold, amount))
        else:
            b.both(
                lambda: b.world.run(reservations.reserve, run, [wish]) is None,
                lambda: runs.reserve(b.model, owner, job_id, epoch, hold, amount),
            )
