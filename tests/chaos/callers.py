"""The state machine, first part: what callers do. They enqueue, again too, alone and in flows, and send signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from holdfast.model.flows import Edge, FlowSpec, Join, Member
from holdfast.model.jobs import Dedupe, JobSpec
from holdfast.model.limits import JobLimits
from holdfast.model.signals import Signal
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import enqueue
from holdfast.storage.ops.signals import signals, waking
from tests.conformance.world import World, spec

from .acting import FLIP, PICK, SMALL, act
from .beside import Beside
from .model import arrivals, links
from .model.state import S

QUEUES = ("default", "other")
LANES = {"a": 1, "b": 2}
WHO = {"actor": "me", "reason": ""}
UNTIL = ("start", "failure", "finish", "window")


class Callers(RuleBasedStateMachine):
    """One store beside the model. A subclass says which."""

    world: World
    taken: int = 0
    """Steps of all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.b = Beside(self.world)

    @invariant()
    def the_store_is_as_the_model_says(self) -> None:
        self.b.compare()

    def teardown(self) -> None:
        type(self).taken += self.b.steps
        self.b.verify()

    def has_jobs(self) -> bool:
        return bool(self.b.model.jobs)

    def enqueue(self, specs: Sequence[JobSpec]) -> None:
        b = self.b
        b.both(b.run(enqueue.enqueue, specs), lambda: arrivals.enqueue(b.model, specs))

    def spec(self, n: int, **fields: Any) -> JobSpec:
        """A job of some kind: plain, delayed, limited, with a deadline."""
        known: dict[str, Any] = {"id": self.b.new_id(), "queue": QUEUES[n % 5 == 4], "priority": n % 3}
        if n % 4 == 1:
            known["delay"] = (1 + n) * 1_000_000
        if n % 3 == 2:
            lane = "ab"[n % 2]
            known["limits"] = JobLimits(key=lane, capacity=LANES[lane]).encode()
        if n % 6 == 3:
            known["deadline"] = 9_000_000
        return spec(**{**known, "max_attempts": 2 + n % 3, **fields})

    @initialize(n=st.sampled_from(PICK))
    def begin(self, n: int) -> None:
        self.enqueue([self.spec(n + i, delay=0) for i in range(4)])

    @act(n=PICK, many=FLIP)
    def enqueue_new(self, n: int, many: bool) -> None:
        self.enqueue([self.spec(n + i) for i in range(1 + 3 * many)])

    @act(n=PICK, key="kl", until=UNTIL, then=SMALL)
    def enqueue_with_a_key(self, n: int, key: str, until: Any, then: int) -> None:
        on_duplicate: Any = ("existing", "replace", "raise", "existing")[then]
        held = Dedupe(key=key, scope="work", until=until, window=9_000_000, on_duplicate=on_duplicate)
        self.enqueue([self.spec(n, dedupe=held, payload=f'{{"n": {n}}}')])

    @act(has_jobs, n=PICK, other=FLIP, explicit=FLIP)
    def enqueue_again(self, n: int, other: bool, explicit: bool) -> None:
        job = self.b.pick(n)
        payload = '{"other": 1}' if other else job.payload
        self.enqueue([self.spec(n, id=job.id, payload=payload, explicit_id=explicit)])

    @act(n=PICK, until=UNTIL, again=FLIP)
    def enqueue_a_mixture(self, n: int, until: Any, again: bool) -> None:
        """Two with one key, one without, and perhaps one that is there, with another payload or the same."""
        held = Dedupe(key="k", scope="work", until=until, window=5_000_000)
        old = [self.spec(n, id=self.b.pick(n).id)] if again and self.has_jobs() else []
        self.enqueue([self.spec(n), self.spec(n + 1, dedupe=held), self.spec(n + 2, dedupe=held), *old])

    @act(n=PICK, mode=SMALL, policy=("success", "failure", "any"))
    def enqueue_a_flow(self, n: int, mode: int, policy: Any) -> None:
        """Two side by side, one behind both, one behind that."""
        b = self.b
        a, c, d, e = (self.spec(n + i) for i in range(4))
        join = (Join(), Join("any"), Join("quorum", 2), Join("quorum", 1))[mode]
        members = [Member(spec=one, name=one.id, join=join if one is d else Join()) for one in (a, c, d, e)]
        edges = (Edge(a.id, d.id, policy), Edge(c.id, d.id), Edge(d.id, e.id, policy))
        flow = FlowSpec(id=b.new_id(), name="flow", members=tuple(members), edges=edges)

        def ideal() -> None:
            arrivals.enqueue(b.model, [one.spec for one in members])
            links.add_flow(b.model, flow)

        b.both(b.silent(flows.create_flow, flow), ideal)

    @act(has_jobs, n=PICK, name=("go", "go", "stop", "else"), key=(None, None, "x", "y"))
    def signal(self, n: int, name: str, key: str | None) -> None:
        b, job = self.b, self.b.pick(n, S.SUSPENDED, S.RUNNING)

        def real() -> tuple[int, str, bool]:
            sent = b.world.run(signals.send, job.id, Signal(name=name, key=key))
            return sent.seq, sent.effect, sent.again

        b.both(real, lambda: links.send(b.model, job.id, name, key))

    @act(has_jobs, n=PICK)
    def resume(self, n: int) -> None:
        b, id = self.b, self.b.pick(n, S.SUSPENDED).id
        b.both(b.run(waking.resume, id, "null", **WHO), lambda: links.resume(b.model, id))
