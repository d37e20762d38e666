"""Who meets whom: short transactions of two or three actors that touch the same rows."""

from __future__ import annotations

import itertools
from typing import Any

from holdfast.clock import SECOND
from holdfast.model.actions import Action, Order
from holdfast.model.flows import Edge, FlowSpec, Join, Member
from holdfast.model.limits import JobLimits
from holdfast.model.outcomes import Done, Failed, Released, Retry, Suspended
from holdfast.model.signals import Condition, Wait
from holdfast.storage.ops.flows import flows
from holdfast.storage.ops.jobs import actions, retention
from holdfast.storage.ops.signals import waking
from tests.conformance.world import ERROR, spec

from .acts import (
    Scene,
    add,
    beat,
    cancel,
    claim,
    finish,
    operate,
    pass_time,
    record,
    register,
    replay,
    rescue,
    say,
    signal,
    sweep,
)  # fmt: skip

DONE, BROKE, AGAIN = Done("1"), Failed("permanent", ERROR), Retry(0, ERROR)
WHO: dict[str, Any] = {"actor": "me", "reason": ""}
WAIT = Wait(key="wait:go#1", reason="signal", condition=Condition(names=("go",)))
SHORT_WAIT = Wait(
    key="wait:go#1", reason="signal", condition=Condition(names=("go",)), timeout=SECOND, on_timeout="resume"
)
AWAIT_JOB = Wait(key="wait:j2#1", reason="jobs", jobs=("j2",))
LIMITED = {"limits": JobLimits(key="lane", capacity=1).encode()}
LOST = (pass_time(31), rescue("w1"))

DIAMOND = FlowSpec(
    id="flow",
    name="flow",
    members=tuple(
        Member(spec=spec(id=id, queue="default", priority=priority), name=id, join=join)
        for id, priority, join in (("a", 3, Join()), ("b", 2, Join()), ("c", 1, Join()))
    ),
    edges=(Edge("a", "c"), Edge("b", "c")),
)

THE_GREAT_ONE = Scene(
    "a worker, a rescuer with a second worker, and a canceller",
    (register("w1", "w2"), add("j1")),
    (
        (claim("w1"), beat("w1"), finish("w1", AGAIN), claim("w1")),
        (pass_time(31), rescue("w1"), claim("w2"), finish("w2", DONE)),
        (cancel("j1"), cancel("j1", force=True), replay("j1"), cancel("j1")),
    ),
)

A_SIGNAL = Scene(
    "a waiter and a signal",
    (register("w1"), add("j1"), claim("w1")),
    ((finish("w1", Suspended(WAIT)),), (signal("j1", "go"),)),
)

TWO_ENDS = Scene(
    "two who each end what a third waits for",
    (register("w1", "w2"), operate(flows.create_flow, DIAMOND), claim("w1"), claim("w2")),
    ((finish("w1", DONE),), (finish("w2", DONE),)),
)

PAIRS = (
    Scene(
        "a worker that repeats itself, and a rescuer",
        (register("w1", "w2"), add("j1")),
        (
            (claim("w1"), beat("w1"), finish("w1", DONE), finish("w1", DONE)),
            (*LOST, claim("w2"), finish("w2", AGAIN)),
        ),
    ),
    Scene(
        "a worker whose job fails, and a rescuer",
        (register("w1", "w2"), add("j1")),
        (
            (claim("w1"), finish("w1", AGAIN), finish("w1", AGAIN), finish("w1", DONE)),
            (*LOST, claim("w2"), finish("w2", BROKE)),
        ),
    ),
    Scene(
        "a worker and an operator who holds",
        (register("w1"), add("j1", delay=0)),
        (
            (claim("w1"), finish("w1", Retry(SECOND, ERROR)), pass_time(2), claim("w1")),
            (
                operate(actions.act, "j1", Order(Action.HOLD), **WHO),
                operate(actions.act, "j1", Order(Action.SET_PRIORITY, priority=5), **WHO),
                operate(actions.act, "j1", Order(Action.RELEASE), **WHO), operate(actions.run_now, "j1"),
            ),
        ),
    ),
    Scene(
        "a waiter and a sender",
        (register("w1"), add("j1")),
        (
            (claim("w1"), finish("w1", Suspended(WAIT)), claim("w1"), finish("w1", DONE)),
            (signal("j1", "else"), signal("j1", "go"), operate(actions.delete, "j1"), signal("j1", "go")),
        ),
    ),
    Scene(
        "a worker and a pruner",
        (register("w1"), add("j1", key="k", until="window")),
        (
            (claim("w1"), finish("w1", BROKE), replay("j1"), claim("w1"), finish("w1", DONE)),
            (operate(retention.prune_jobs, ["j1"], 0), pass_time(2), operate(retention.prune_jobs, ["j1"], 0)),
        ),
    ),
    Scene(
        "a worker that runs a job again, and its own first outcome, which comes late",
        (register("w1"), add("j1")),
        (
            (claim("w1"), finish("w1", AGAIN), claim("w1"), finish("w1", DONE)),
            (finish("w1", DONE, late=True), finish("w1", BROKE, late=True)),
        ),
    ),
    Scene(
        "a worker that writes and speaks, and a rescuer",
        (register("w1", "w2"), add("j1")),
        (
            (claim("w1"), record("w1"), say("w1"), finish("w1", AGAIN)),
            (*LOST, claim("w2"), record("w2")),
        ),
    ),
    Scene(
        "two workers on a flow, and an operator who changes a join",
        (register("w1", "w2"), operate(flows.create_flow, DIAMOND), claim("w1"), claim("w2")),
        (
            (finish("w1", DONE), finish("w2", BROKE), sweep),
            (operate(flows.set_join, "c", Join("any", 1)), operate(flows.set_join, "c", Join("quorum", 2))),
        ),
    ),
    A_SIGNAL,
    TWO_ENDS,
)  # fmt: skip

TRIPLES = (
    Scene(
        "a worker, an enqueuer with a key that is held until the start, and a lane that is full",
        (register("w1", "w2"), add("j0", **LIMITED), claim("w2"), add("j1", key="k", until="start", **LIMITED)),
        (
            (claim("w1"), claim("w1"), finish("w1", DONE)),
            (add("j2", key="k", until="start"), add("j3", key="k", until="start")),
            (finish("w2", DONE), cancel("j1"), replay("j1")),
        ),
    ),
    Scene(
        "a worker that stops, a queue that is paused, and an operator",
        (register("w1", "w2"), add("j1")),
        (
            (claim("w1"), finish("w1", Released("shutdown")), claim("w2")),
            (
                operate(actions.set_queue_state, "default", "paused"), claim("w2"),
                operate(actions.set_queue_state, "default", "active"),
            ),
            (rescue("w1", certain=True), cancel("j1"), finish("w2", DONE)),
        ),
    ),
    Scene(
        "two workers and a rescuer over a lane",
        (register("w1", "w2"), add("j1", **LIMITED), add("j2", **LIMITED)),
        (
            (claim("w1"), claim("w1"), finish("w1", DONE)),
            (claim("w2"), finish("w2", AGAIN), claim("w2")),
            (*LOST, claim("w2")),
        ),
    ),
    Scene(
        "a worker, an enqueuer with a key that is held until failure, and a canceller",
        (register("w1"), add("j1", key="k", until="failure")),
        (
            (claim("w1"), finish("w1", AGAIN), claim("w1"), finish("w1", DONE)),
            (add("j2", key="k", until="failure"), add("j3", key="k", then="replace"), add("j4", key="k")),
            (cancel("j1"), replay("j1")),
        ),
    ),
    Scene(
        "two workers on a flow, and a canceller",
        (register("w1", "w2"), operate(flows.create_flow, DIAMOND)),
        (
            (claim("w1"), finish("w1", DONE), claim("w1")),
            (claim("w2"), finish("w2", BROKE), sweep),
            (cancel("b"), replay("b"), cancel("c")),
        ),
    ),
    Scene(
        "a worker on a flow, a rescuer, and one who cancels the flow",
        (register("w1", "w2"), operate(flows.create_flow, DIAMOND)),
        (
            (claim("w1"), finish("w1", DONE), finish("w1", DONE)),
            (*LOST, claim("w2")),
            (operate(flows.cancel_flow, "flow", "cancel_all"), replay("a"), operate(flows.retry_flow, "flow")),
        ),
    ),
    Scene(
        "a waiter, a sender, and time",
        (register("w1"), add("j1")),
        (
            (claim("w1"), finish("w1", Suspended(SHORT_WAIT)), claim("w1"), finish("w1", DONE)),
            (signal("j1", "go"), signal("j1", "go")),
            (pass_time(2), sweep, operate(waking.resume, "j1", "null", **WHO)),
        ),
    ),
    Scene(
        "one who waits for another's end, the other, and a deleter",
        (register("w1", "w2"), add("j1", priority=2), add("j2", priority=1), claim("w1")),
        (
            (finish("w1", Suspended(AWAIT_JOB)), claim("w1"), finish("w1", DONE)),
            (claim("w2"), finish("w2", DONE), replay("j2")),
            (operate(actions.delete, "j2"), cancel("j1"), replay("j1")),
        ),
    ),
)  # fmt: skip


def meetings(scene: Scene) -> list[Scene]:
    """Each two of its actors alone."""
    pairs = itertools.combinations(scene.actors, 2)
    return [Scene(f"{scene.name} ({n})", scene.before, pair) for n, pair in enumerate(pairs)]
