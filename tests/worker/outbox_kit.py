"""A shop with an outbox whose destination is a receiver on loopback; time is the test's."""

from __future__ import annotations

from typing import Any

from holdfast import App
from holdfast.client.outbox import Outbox
from holdfast.clock import ManualClock
from holdfast.model.jobs import JobRecord
from holdfast.model.outbox import OutboxCounts

from .receiver import Receiver
from .worker_kit import Shop


class Post:
    """Puts, delivers what is due, and looks what became of it."""

    def __init__(self, shop: Shop, receiver: Receiver, **options: Any) -> None:
        self.shop = shop
        self.receiver = receiver
        self.app.destination("cloud", **options)(receiver.send)
        self.ids: dict[Any, str] = {}

    @property
    def app(self) -> App:
        return self.shop.app

    @property
    def clock(self) -> ManualClock:
        return self.shop.clock

    @property
    def outbox(self) -> Outbox:
        return self.app.outbox("cloud")

    def put(self, *data: Any, **options: Any) -> None:
        """Put events, all in one call."""
        for item, job in zip(data, self.outbox.put_many(data, **options), strict=True):
            self.ids[str(item)] = job.id

    def deliver(self) -> list[int]:
        """Deliver all that is due; how many events each request had."""
        before = len(self.receiver.seen)
        self.app.drain()
        return self.receiver.sizes[before:]

    def wait(self, seconds: float) -> list[int]:
        """Let time pass, and deliver what is due then."""
        self.clock.advance(seconds)
        return self.deliver()

    def entry(self, item: Any) -> JobRecord:
        return self.app.jobs.get(self.ids[str(item)])

    def state(self, item: Any) -> str:
        entry = self.entry(item)
        return f"{entry.state}:{entry.reason}" if entry.reason else str(entry.state)

    @property
    def counts(self) -> OutboxCounts:
        found = {counts.name: counts for counts in self.app.outbox.list()}
        return found.get("cloud", OutboxCounts("cloud"))
