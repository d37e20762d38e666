"""What the heartbeat tells its worker, and in which order."""

from __future__ import annotations

import threading

import holdfast
from holdfast.clock import ManualClock
from holdfast.model.workers import Owned
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op
from holdfast.worker.lease import Heartbeat
from tests.conformance.world import worker_spec
from tests.patience import SOON

LEASE = 30.0


class SlowLook(ManualClock):
    """A clock at which the thread `watch` lingers between two readings: after it has found the lease over."""

    def __init__(self) -> None:
        super().__init__()
        self.lingers, self.may_go_on = threading.Event(), threading.Event()
        self._readings = 0

    def monotonic(self) -> float:
        if threading.current_thread().name == "watch":
            self._readings += 1
            if self._readings == 2:
                self.lingers.set()
                assert self.may_go_on.wait(SOON)
        return super().monotonic()


class LeaseHolder:
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_renewed(self, owned: list[Owned], asked_at: float) -> None:
        self.told.append("heard")

    def fence(self, why: str) -> None:
        self.told.append("fence")

    def on_declared_lost(self, worker_id: str, why: str) -> None:
        self.told.append("buried")


def test_an_answer_that_took_longer_than_the_lease_renews_nothing() -> None:
    clock, holder = ManualClock(), LeaseHolder()

    def linger() -> None:
        clock.advance(LEASE)

    app = holdfast.App(":memory:", clock=clock)
    app.migrate()
    app.open().write(Op(lambda tx: workers.register(tx, worker_spec("w"))))
    heartbeat = Heartbeat(app.open(), "w", LEASE, holder, clock, examine=linger)
    assert not heartbeat.run_once()
    app.close()
    assert holder.told == ["fence"]


def test_a_look_that_found_the_lease_over_does_not_fence_a_worker_that_was_renewed_since() -> None:
    clock, holder = SlowLook(), LeaseHolder()
    app = holdfast.App(":memory:", clock=clock)
    app.migrate()
    app.open().write(Op(lambda tx: workers.register(tx, worker_spec("w"))))
    heartbeat = Heartbeat(app.open(), "w", LEASE, holder, clock)
    clock.advance(LEASE)
    watch = threading.Thread(target=heartbeat.check, name="watch")
    watch.start()
    assert clock.lingers.wait(SOON)
    beat = threading.Thread(target=heartbeat.run_once)
    beat.start()
    # The beat reaches the store meanwhile; it must not be told before the look has come to its end.
    beat.join(0.2)
    clock.may_go_on.set()
    for thread in (watch, beat):
        thread.join(SOON)
    app.close()
    assert holder.told == ["fence", "heard"]


def test_a_worker_whose_heartbeat_was_stopped_after_the_fence_is_told_again_and_once() -> None:
    clock, holder = ManualClock(), LeaseHolder()
    app = holdfast.App(":memory:", clock=clock)
    heartbeat = Heartbeat(app.open(), "w", LEASE, holder, clock)
    clock.advance(LEASE)
    for _ in range(2):
        heartbeat.check()
    heartbeat.stop()
    for _ in range(2):
        heartbeat.check()
    app.close()
    assert holder.told == ["fence", "fence"]
