"""The state machine, last part: what operators do, and time."""

from __future__ import annotations

from holdfast.model.actions import Action, Order
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions, finishing, retention
from holdfast.storage.ops.limits import lanes
from holdfast.storage.ops.signals import waking

from .acting import FLIP, PICK, act
from .callers import QUEUES, WHO
from .crew import Crew
from .model import lanes as rooms
from .model import links, people
from .model.state import S

STATES = ("active", "active", "active", "paused", "draining", "disabled")


class Machine(Crew):
    """Everything at once."""

    def has_flows(self) -> bool:
        return bool(self.b.model.flows)

    @act(seconds=(0.5, 2, 5, 10))
    def advance(self, seconds: float) -> None:
        self.b.world.clock.advance(seconds)

    @act(what=range(0, 3), later=FLIP)
    def sweep(self, what: int, later: bool) -> None:
        """What workers do beside jobs."""
        b = self.b
        b.world.clock.advance(5 * later)
        if what == 0:
            b.both(lambda: sorted(b.world.run(finishing.expire_jobs)), lambda: people.expire(b.model))
        elif what == 1:
            b.both(b.silent(waking.wake_due), lambda: links.wake_due(b.model))
        else:
            b.both(b.silent(lanes.unpark_stalled), lambda: rooms.unpark_stalled(b.model))

    @act(Crew.has_jobs, n=PICK, force=FLIP, running=FLIP)
    def cancel(self, n: int, force: bool, running: bool) -> None:
        b = self.b
        id = (b.pick(n, S.RUNNING) if running else b.pick(n)).id
        b.both(b.run(actions.cancel, id, force=force), lambda: people.cancel(b.model, id, force=force))

    @act(Crew.has_jobs, n=PICK)
    def retry(self, n: int) -> None:
        b, id = self.b, self.b.pick(n, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.EXPIRED, S.SKIPPED).id
        b.both(b.run(actions.retry, id), lambda: people.retry(b.model, id))

    @act(Crew.has_jobs, n=PICK, how=("hold", "release", "run_now"))
    def put_aside_or_let_go(self, n: int, how: str) -> None:
        b = self.b
        id = (b.pick(n, S.READY) if how == "hold" or n % 2 else b.pick(n, S.BLOCKED)).id
        if how == "run_now":
            b.both(b.run(actions.run_now, id), lambda: people.run_now(b.model, id))
        else:
            ideal = getattr(people, how)
            b.both(b.run(actions.act, id, Order(Action(how)), **WHO), lambda: ideal(b.model, id))

    @act(Crew.has_jobs, n=PICK, priority=range(0, 5), moves=FLIP)
    def reorder(self, n: int, priority: int, moves: bool) -> None:
        b, id = self.b, self.b.pick(n).id
        if moves:
            queue = QUEUES[priority % 2]
            b.both(
                b.silent(actions.apply, [id], Order(Action.MOVE, queue=queue), target=id, **WHO),
                lambda: people.move(b.model, id, queue),
            )
        else:
            b.both(
                b.run(actions.act, id, Order(Action.SET_PRIORITY, priority=priority), **WHO),
                lambda: people.set_priority(b.model, id, priority),
            )

    @act(queue=QUEUES, state=STATES)
    def close_or_open(self, queue: str, state: str) -> None:
        b = self.b
        b.both(b.run(actions.set_queue_state, queue, state), lambda: people.set_queue(b.model, queue, state))

    @act(Crew.has_jobs, n=PICK, kept=(None, None, 0, 3_000_000))
    def remove(self, n: int, kept: int | None) -> None:
        """Delete one, or prune all that are over."""
        b, id, ids = self.b, self.b.pick(n).id, sorted(self.b.model.jobs)
        if kept is None:
            b.both(b.run(actions.delete, id), lambda: people.delete(b.model, id))
        else:
            b.both(b.run(retention.prune_jobs, ids, kept), lambda: people.prune(b.model, ids, kept))

    @act(has_flows, n=PICK, scope=range(0, 3))
    def cancel_flow(self, n: int, scope: int) -> None:
        b = self.b
        live = [id for id, flow in sorted(b.model.flows.items()) if not (flow.finished or flow.cancelled)]
        if live:
            id, policy = live[n % len(live)], ("flow_only", "cancel_pending", "cancel_all")[scope]
            b.both(b.silent(flows.cancel_flow, id, policy), lambda: links.cancel_flow(b.model, id, scope))
