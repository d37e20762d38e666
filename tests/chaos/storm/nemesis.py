"""What befalls the processes of a storm: kills, freezes past the lease, and producers that die in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import holdfast

from .fleet import Fleet, Hand
from .nursery import Nursery
from .plan import Diary, Plan

_LEAD = 300
"""Jobs that are enqueued ahead of what the kills call for."""
_AT_MOST_FROZEN = 4
"""In leases: nobody stays frozen longer, whether it was given up or not."""
_LOOKS = 0.1
_STARVED = 0.3
"""Seconds that a pause of a hundredth of one may take."""


class Nemesis:
    """Rages until the plan is fulfilled. `besides` is what else may happen, asked again and again how far it is."""

    def __init__(
        self,
        fleet: Fleet,
        nursery: Nursery,
        plan: Plan,
        dice: Random,
        diary: Diary,
        *,
        ledger: Path,
        store: Callable[[], str],
        is_blocked: Callable[[], bool] = lambda: False,
        besides: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._fleet = fleet
        self._nursery = nursery
        self._plan = plan
        self._dice = dice
        self._diary = diary
        self._ledger = Tail(ledger)
        self._store = store
        self._is_blocked = is_blocked
        self._besides = besides
        self._next_blow = self._next_look = 0.0
        self._producer: tuple[int, float] | None = None
        self._produced = 0

    def rage(self, seconds: float) -> None:
        """Until everything is reached; it fails when that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._is_done():
            assert time.monotonic() < deadline, f"not reached in {seconds} s: {self._diary.counts}"
            self._rest()
            self._fleet.fill()
            self._look_at_the_frozen()
            self._produce()
            if time.monotonic() > self._next_blow:
                self._strike()
                self._next_blow = time.monotonic() + self._dice.expovariate(self._plan.kills_per_second)

    def _rest(self) -> None:
        began = time.time()
        self._nursery.listen(0.01)
        if time.time() - began > _STARVED:
            # The machine has no time for us, and so for nobody: what recovers meanwhile says nothing of Holdfast.
            self._diary.note("starved", f"for {time.time() - began:.2f} s")
            self._diary.outages.append((began, time.time()))

    def heal(self) -> None:
        """Nothing happens any more; who is frozen goes on."""
        for hand in self._fleet.frozen:
            self._fleet.thaw(hand, lost=not hand.ids & self._fleet.alive().get(hand.pid, set()))
        while self._producer is not None:
            self._nursery.listen(0.1)
            self._see_the_producer_off()

    @property
    def progress(self) -> float:
        return min(1.0, len(self._diary.kills) / self._plan.kills)

    def _is_done(self) -> bool:
        fell = len(self._diary.kills) >= self._plan.kills and self._diary.zombies >= self._plan.zombies
        return self._besides(self.progress) and fell and self._ledger.acknowledged() >= self._plan.jobs

    # -- kills and freezes

    def _strike(self) -> None:
        hand = self._victim()
        if hand is None or self._ledger.acknowledged() < self._plan.jobs * self.progress - _LEAD:
            return
        behind = self._diary.zombies + len(self._fleet.frozen) < self._plan.zombies * self.progress + 1
        if behind and len(self._fleet.frozen) < self._plan.frozen_at_once:
            if self._fleet.freeze(hand) and self._is_blocked():
                self._let_go(hand)
        else:
            self._fleet.kill(hand)

    def _victim(self) -> Hand | None:
        awake = self._fleet.awake
        steady = [hand for hand in awake if hand.elder and hand.is_steady(self._plan.lease)]
        if len(steady) > 1 and self._dice.random() < 0.05:
            return self._dice.choice(steady)
        # Most have a moment to begin; some fall while they start.
        youngest = time.time() - (0.0 if self._dice.random() < 0.1 else 0.25)
        young = [hand for hand in awake if not hand.elder and hand.awake_since < youngest]
        return self._dice.choice(young) if young else None

    def _let_go(self, hand: Hand) -> None:
        """It was frozen inside of a transaction: nobody can write, so that nobody is given up meanwhile."""
        began = time.time()
        time.sleep(self._dice.uniform(0.05, 0.3))
        self._fleet.thaw(hand, lost=False)
        self._diary.note("frozen inside of a transaction", hand.pid)
        self._diary.outages.append((began, time.time()))

    def _look_at_the_frozen(self) -> None:
        if not self._fleet.frozen or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOKS
        try:
            alive = self._fleet.alive()
        except holdfast.errors.StorageError:
            return
        for hand in self._fleet.frozen:
            lost = not hand.ids & alive.get(hand.pid, set())
            assert hand.frozen_at is not None
            if not lost and time.time() - hand.frozen_at < _AT_MOST_FROZEN * self._plan.lease:
                continue
            if lost and self._dice.random() < 0.5:
                continue
            self._fleet.thaw(hand, lost=lost)

    # -- producers

    def _produce(self) -> None:
        if self._producer is not None:
            self._see_the_producer_off()
        elif self._ledger.acknowledged() < min(self._plan.jobs, self._plan.jobs * self.progress + _LEAD):
            self._produced += 1
            seed = self._dice.randrange(2**32)
            pid = self._nursery.fork("produce", f"producer-{self._produced}", self._store(), seed=seed, jobs=100)
            dies = self._dice.random() < 0.3
            self._producer = pid, time.monotonic() + (self._dice.uniform(0.02, 0.5) if dies else 60.0)

    def _see_the_producer_off(self) -> None:
        assert self._producer is not None
        pid, dies_at = self._producer
        if (code := self._nursery.ended.get(pid)) is not None:
            assert code in (0, -signal.SIGKILL), f"producer {pid} has ended with {code}"
            self._producer = None
        elif time.monotonic() > dies_at:
            # It may have ended by itself since the nursery was asked.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._diary.note("kill of a producer", pid)
            self._producer = pid, float("inf")


class Tail:
    """Counts what was acknowledged, reading on from where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._count = 0
        self._rest = b""

    def acknowledged(self) -> int:
        with self._path.open("rb") as ledger:
            ledger.seek(self._place)
            got = ledger.read()
        self._place += len(got)
        *lines, self._rest = (self._rest + got).split(b"\n")
        self._count += sum(line.startswith(b"Q ") for line in lines)
        return self._count
