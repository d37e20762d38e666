"""Rules of the machine, for two who drive it: Hypothesis, which looks for the shortest history that fails, and plain
dice, which make long dense ones at a tenth of the cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

Domain = Sequence[Any]
SMALL, PICK, FLIP = range(4), range(12), (False, True)


@dataclass(frozen=True)
class Acting:
    """One rule: its name, when it applies, and what each argument may be."""

    name: str
    when: Callable[[Any], bool] | None
    domains: dict[str, Domain]


ALL: list[Acting] = []


def act(when: Callable[[Any], bool] | None = None, **domains: Domain) -> Callable[[Callable[..., None]], Any]:
    """Make a method a rule of its machine."""

    def wrap(method: Callable[..., None]) -> Any:
        ALL.append(Acting(method.__name__, when, domains))
        made = rule(**{name: st.sampled_from(list(values)) for name, values in domains.items()})(method)
        return made if when is None else precondition(when)(made)

    return wrap


def wander(machine: Callable[[], Any], seed: int, steps: int) -> None:
    """One long history by dice."""
    dice, trail = random.Random(seed), list[str]()
    one = machine()
    try:
        one.begin(dice.randrange(12))
        for _ in range(steps):
            chosen = dice.choice([acting for acting in ALL if acting.when is None or acting.when(one)])
            given = {name: dice.choice(values) for name, values in chosen.domains.items()}
            trail.append(f"{chosen.name}({', '.join(f'{name}={value!r}' for name, value in given.items())})")
            getattr(one, chosen.name)(**given)
            one.the_store_is_as_the_model_says()
        one.teardown()
    except AssertionError as error:
        error.add_note(f"history {seed}, step {len(trail)}; the last: {'; '.join(trail[-8:])}")
        raise
