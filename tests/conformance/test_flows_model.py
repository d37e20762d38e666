"""Random graphs, run in random order by several at once: a model that knows nothing of counters predicts every end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from holdfast.model.flows import FlowState, Join
from holdfast.model.outcomes import Cancelled, Done, Expired, Outcome
from holdfast.storage.ops.flows import dependency_resolution

from .flow_kit import BROKE, After, Flow, check, create, drain
from .racing import all_at_once
from .world import World

OUTCOMES: dict[str, Outcome] = {
    "succeeded": Done("1"), "failed": BROKE, "cancelled": Cancelled("asked"), "expired": Expired(),
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Members in an order in which upstreams come first, and how each ends if it runs."""

    after: dict[str, After]
    fates: dict[str, str]


def random_plan(dice: random.Random, size: int) -> Plan:
    after: dict[str, After] = {}
    for i in range(size):
        names = tuple(dice.sample(sorted(after), min(len(after), dice.choice([0, 0, 1, 1, 2, 3, 4]))))
        mode: Any = dice.choice(["all", "all", "any", "quorum"])
        needed = dice.randint(1, len(names)) if names and mode == "quorum" else 0
        join = Join(mode, needed) if names else Join()
        after[f"m{i:02}"] = After(names, join, dice.choice(["success", "success", "success", "any", "failure"]))
    chances = ["succeeded"] * 6 + ["failed", "failed", "cancelled", "expired"]
    return Plan(after, {name: dice.choice(chances) for name in after})


def predicted(plan: Plan) -> dict[str, str]:
    ends: dict[str, str] = {}
    for name, after in plan.after.items():
        met = sum(counts(after.policy, ends[upstream]) for upstream in after.names)
        needed = {"all": len(after.names), "any": min(1, len(after.names))}.get(after.join.mode, after.join.needed)
        ends[name] = plan.fates[name] if met >= needed else "skipped"
    return ends


def counts(policy: str, end: str) -> bool:
    match policy:
        case "any":
            return True
        case "success":
            return end == "succeeded"
        case _:
            return end in ("failed", "expired")


def work(flow: Flow, world: World, plan: Plan, seed: int) -> None:
    """One worker: takes what it can, in its own order, and now and then carries on what others left."""
    dice = random.Random(seed)
    owner = world.worker(f"worker-of-{seed}")
    names = list(plan.after)
    idle = 0
    while idle < 3:
        dice.shuffle(names)
        taken = 0
        for name in names:
            for job in world.claim(owner, 1, queues=[flow.queue(name)]):
                world.finish(owner, job, OUTCOMES[plan.fates[name]])
                taken += 1
        taken += world.run(dependency_resolution.resolve_page)
        idle = 0 if taken else idle + 1


def is_right(flow: Flow, world: World, plan: Plan) -> None:
    drain(world)
    check(world)
    assert flow.states() == predicted(plan)
    bad = {"failed", "expired", "cancelled"} & set(flow.states().values())
    assert (flow.record().live, flow.record().state) == (0, FlowState.FAILED if bad else FlowState.SUCCEEDED)


@pytest.mark.parametrize("seed", range(12))
def test_one_after_the_other(each_store: World, seed: int) -> None:
    plan = random_plan(random.Random(seed), 25)
    flow = create(each_store, dict(plan.after))
    work(flow, each_store, plan, seed)
    is_right(flow, each_store, plan)


@pytest.mark.parametrize("seed", range(6))
def test_several_at_once(two_worlds: tuple[World, World], seed: int) -> None:
    plan = random_plan(random.Random(100 + seed), 30)
    flow = create(two_worlds[0], dict(plan.after))
    all_at_once([partial(work, flow, two_worlds[n % 2], plan, seed * 10 + n) for n in range(4)])
    is_right(flow, two_worlds[0], plan)


def grown(flow: Flow, plan: Plan, parts: Sequence[int], dice: random.Random) -> None:
    """Add the rest of the members in parts, while those before run."""
    names = list(plan.after)
    for start, end in zip([0, *parts], [*parts, len(names)], strict=True):
        flow.add({name: plan.after[name] for name in names[start:end]})
        for name in dice.sample(names[:end], end):
            if flow.can_start(name) and dice.random() < 0.6:
                flow.end(name, OUTCOMES[plan.fates[name]])
        if dice.random() < 0.5:
            drain(flow.world)


@pytest.mark.parametrize("seed", range(8))
def test_a_flow_that_grows_while_it_runs(each_store: World, seed: int) -> None:
    dice = random.Random(200 + seed)
    plan = random_plan(dice, 24)
    flow = create(each_store, {"anchor": ()})
    grown(flow, plan, [6, 12, 18], dice)
    flow.end("anchor")
    work(flow, each_store, plan, seed)
    drain(each_store)
    check(each_store)
    states = flow.states()
    assert states.pop("anchor") == "succeeded"
    assert states == predicted(plan)
    assert flow.record().finished_at is not None
