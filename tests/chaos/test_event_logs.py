"""One history on both databases leaves the same log of events: a difference is a defect of one of them."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest

from holdfast.model.events import Event
from holdfast.storage.ops import queues
from tests.conformance.conftest import Ground
from tests.conformance.world import World

from .acting import wander
from .callers import QUEUES, WHO
from .dials import SEED, Figure, scaled
from .machine import Machine

Logs = dict[str | None, list[Event]]
"""By job or flow."""


def test_both_stores_tell_the_same_of_one_history(stores: Ground) -> None:
    lite, post = stores.open("memory"), stores.open("postgres")
    told = [event for history in range(3) for event in compared(lite, post, history, 60)]
    kinds = {event.kind for event in told}
    assert {"job.enqueued", "job.started", "job.retried", "job.succeeded", "job.failed", "job.cancelled"} <= kinds
    assert {"job.suspended", "signal.received", "operator.job.hold"} <= kinds


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_both_stores_tell_the_same_of_many_histories(stores: Ground, figure: Figure) -> None:
    lite, post = stores.open("memory"), stores.open("postgres")
    told = sum(len(compared(lite, post, history, 100)) for history in range(SEED, SEED + scaled(40)))
    figure(told, "events compared")


def compared(lite: World, post: World, history: int, steps: int) -> list[Event]:
    """Play a history on both and compare what they tell; all that was told."""
    expected, found = played(lite, history, steps), played(post, history, steps)
    assert set(found) == set(expected), f"history {history}"
    for subject, events in expected.items():
        assert found[subject] == events, f"history {history}, of {subject}"
    return [event for events in expected.values() for event in events]


def played(world: World, history: int, steps: int) -> Logs:
    """What a history tells, in the order of each job or flow, without times and places in the log."""
    wander(type("Telling", (_Telling,), {"world": world}), history, steps)
    logs: Logs = defaultdict(list)
    for event in world.events():
        logs[event.job or event.flow].append(msgspec.structs.replace(event, at=0, cursor=""))
    return dict(logs)


class _Telling(Machine):
    """The machine on queues that tell everything."""

    def begin(self, n: int) -> None:
        for queue in QUEUES:
            self.b.world.run(queues.change_queue, queue, {"events": "all"}, action="queue.set", **WHO)
        super().begin(n)
