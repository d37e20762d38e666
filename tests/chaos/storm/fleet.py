"""The workers of a storm: a fleet that is filled up again, whoever falls out of it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import holdfast

from .nursery import Nursery
from .plan import Blow, Diary, Plan


@dataclass(slots=True, eq=False)
class Hand:
    """A worker's process."""

    pid: int
    line: int
    elder: bool
    awake_since: float = field(default_factory=time.time)
    frozen_at: float | None = None
    ids: frozenset[str] = frozenset()
    """The identities that it had when it was frozen."""

    def is_steady(self, lease: float) -> bool:
        """Whether it has been awake for long enough to judge of others."""
        return self.frozen_at is None and time.time() - self.awake_since > 2 * lease


class Fleet:
    """Kills, freezes and thaws; `stores` are the ways to the store, one for each line."""

    def __init__(self, nursery: Nursery, app: holdfast.App, stores: list[str], plan: Plan, dice: Random, diary: Diary):
        self._nursery = nursery
        self._app = app
        self._stores = stores
        self._plan = plan
        self._dice = dice
        self._diary = diary
        self._made = 0
        self.hands: list[Hand] = []

    @property
    def awake(self) -> list[Hand]:
        return [hand for hand in self.hands if hand.frozen_at is None]

    @property
    def frozen(self) -> list[Hand]:
        return [hand for hand in self.hands if hand.frozen_at is not None]

    def fill(self) -> None:
        """Look who has fallen, and put others in their places."""
        self._nursery.listen()
        for hand in list(self.hands):
            if (code := self._nursery.ended.get(hand.pid)) is not None:
                # Nobody has touched it: a worker must not end by itself.
                raise AssertionError(f"worker {hand.pid} has ended by itself with {code}")
        while len(self.hands) < self._plan.workers:
            self.hands.append(self._new())

    def kill(self, hand: Hand) -> None:
        self.hands.remove(hand)
        self._send(hand, signal.SIGKILL)
        self._diary.kills.append(Blow(hand.pid, time.time()))
        self._diary.note("kill", f"{hand.pid}{' elder' if hand.elder else ''}{' frozen' if hand.frozen_at else ''}")

    def freeze(self, hand: Hand) -> bool:
        """Stop it where it is; False if the store does not know it yet, or cannot be asked."""
        try:
            hand.ids = frozenset(self.alive().get(hand.pid, ()))
        except holdfast.errors.StorageError:
            return False
        if not hand.ids:
            return False
        self._send(hand, signal.SIGSTOP)
        while not _stands_still(hand.pid):
            time.sleep(0.001)
        hand.frozen_at = time.time()
        self._diary.note("freeze", hand.pid)
        return True

    def thaw(self, hand: Hand, *, lost: bool) -> None:
        assert hand.frozen_at is not None
        self._send(hand, signal.SIGCONT)
        hand.awake_since = time.time()
        self._diary.freezes.append(Blow(hand.pid, hand.frozen_at, hand.awake_since, lost))
        self._diary.note("thaw", f"{hand.pid} after {hand.awake_since - hand.frozen_at:.2f} s, lost: {lost}")
        hand.frozen_at = None

    def alive(self) -> dict[int, set[str]]:
        """The identities by process that the store has not given up."""
        found: dict[int, set[str]] = {}
        for worker in self._app.workers.list():
            self._diary.pids[worker.id] = worker.pid
            if worker.state != "dead":
                found.setdefault(worker.pid, set()).add(worker.id)
        return found

    def stop(self, patience: float) -> dict[int, int]:
        """SIGTERM to all; how each has ended."""
        for hand in self.hands:
            self._send(hand, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while any(hand.pid not in self._nursery.ended for hand in self.hands) and time.monotonic() < deadline:
            self._nursery.listen(0.2)
        return {hand.pid: self._nursery.ended.get(hand.pid, -1) for hand in self.hands}

    def _send(self, hand: Hand, number: signal.Signals) -> None:
        try:
            os.kill(hand.pid, number)
        except ProcessLookupError:
            self._nursery.listen(1.0)
            code = self._nursery.ended.get(hand.pid)
            raise AssertionError(f"worker {hand.pid} has ended by itself with {code}") from None

    def _new(self) -> Hand:
        self._made += 1
        elder = sum(hand.elder for hand in self.hands) < self._plan.elders
        line = self._dice.randrange(len(self._stores))
        settings = {"lease": self._plan.lease, "concurrency": self._plan.concurrency, "grace": 5.0, "poll": 0.5}
        # Half of them as if on other machines, so that nothing but their leases tells of their ends.
        known = self._dice.random() < 0.5
        name, store = f"{'elder' if elder else 'hand'}-{self._made}", self._stores[line]
        pid = self._nursery.fork("work", name, store, settings=settings, known=known)
        return Hand(pid, line, elder)


def _stands_still(pid: int) -> bool:
    """Whether each of its threads has heard: until then one of them may still begin a transaction."""
    return all(
        (task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in Path(f"/proc/{pid}/task").iterdir()
    )
