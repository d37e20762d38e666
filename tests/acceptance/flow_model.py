"""Random flows, and a model that says how each of their members must end, whoever runs them and however often."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from holdfast.model.flows import Mode, Policy, Rest

How = Literal["succeed", "fail", "cancel", "flaky"]

_END = {"succeed": "succeeded", "flaky": "succeeded", "fail": "failed", "cancel": "cancelled"}
_MET: dict[Policy, frozenset[str]] = {
    "success": frozenset({"succeeded"}),
    "failure": frozenset({"failed", "expired"}),
    "any": frozenset({"succeeded", "failed", "expired", "cancelled", "skipped"}),
}


@dataclass(frozen=True)
class Node:
    """What a member does, and what it waits for. `grows` are members that it adds when it runs, and one behind them."""

    name: str
    how: How
    upstreams: tuple[tuple[str, Policy], ...] = ()
    mode: Mode = "all"
    needed: int = 0
    rest: Rest = "run"
    takes: bool = False
    """Whether it takes the results of its upstreams as arguments."""
    grows: tuple[How, ...] = ()

    def is_released(self, states: dict[str, str]) -> bool:
        met = sum(states[name] in _MET[policy] for name, policy in self.upstreams)
        needed = {"all": len(self.upstreams), "any": 1}.get(self.mode, self.needed)
        return not self.upstreams or met >= needed


@dataclass(frozen=True)
class Dag:
    nodes: tuple[Node, ...]
    grown: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    """By the member that adds them."""


def random_dag(dice: random.Random, size: int) -> Dag:
    nodes: list[Node] = []
    for n in range(size):
        nodes.append(_random_node(dice, f"n{n}", nodes[-20:]))
    return Dag(tuple(nodes), {node.name: children_of(node) for node in nodes if node.grows})


def children_of(node: Node) -> tuple[Node, ...]:
    """Members that a running one adds: some side by side, and one that waits for them all to end."""
    leaves = [Node(f"{node.name}/leaf-{n}", how) for n, how in enumerate(node.grows, 1)]
    ends: tuple[tuple[str, Policy], ...] = tuple((leaf.name, "any") for leaf in leaves)
    return (*leaves, Node(f"{node.name}/last", "succeed", ends))


def predict(dag: Dag) -> dict[str, set[str]]:
    """The states in which each member may be in the end. More than one only where it may be cancelled as not needed."""
    states: dict[str, str] = {}
    for node in dag.nodes:
        states[node.name] = _END[node.how] if node.is_released(states) else "skipped"
        if states[node.name] != "skipped":
            for child in dag.grown.get(node.name, ()):
                states[child.name] = _END[child.how] if child.is_released(states) else "skipped"
    allowed = {name: {state} for name, state in states.items()}
    for node in dag.nodes:
        if node.rest == "cancel" and node.is_released(states):
            for name, _ in node.upstreams:
                # It is cancelled only if nobody else waits for it, so nothing behind it is changed.
                allowed[name].add("cancelled")
    return allowed


def _random_node(dice: random.Random, name: str, before: list[Node]) -> Node:
    how = dice.choices(("succeed", "fail", "cancel", "flaky"), (80, 8, 2, 10))[0]
    grows = tuple(dice.choices(("succeed", "fail"), (8, 2), k=dice.randint(1, 3))) if dice.random() < 0.05 else ()
    chosen = dice.sample(before, min(dice.choice((0, 1, 1, 2, 3, 4)), len(before)))
    policies: tuple[Policy, ...] = ("success", "any", "failure")
    upstreams = tuple((up.name, dice.choices(policies, (70, 25, 5))[0]) for up in chosen)
    mode: Mode = dice.choices(("all", "any", "quorum"), (60, 20, 20))[0] if len(upstreams) > 1 else "all"
    # Whether one that is not needed gets to run is a matter of luck, so it must not be one that adds others.
    may_cancel = mode != "all" and not any(up.grows for up in chosen)
    rest: Rest = "cancel" if may_cancel and dice.random() < 0.3 else "run"
    needed = dice.randint(1, len(upstreams)) if mode == "quorum" else 0
    return Node(name, how, upstreams, mode, needed, rest, takes=dice.random() < 0.5, grows=grows)
