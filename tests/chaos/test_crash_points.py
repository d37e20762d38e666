"""Each operation is broken at each of its statements, in each way: what is left is nothing of it, or all of it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from holdfast.storage.statements import sql

from .breaking import Fault, Script, breaking
from .crash_points import RARELY, Reference, Tally, attempt, faults_at, refer
from .dials import SEED, Figure, scaled
from .engine_ops import ENGINE
from .grounds import Ground, PostgresGround, SqliteGround
from .operations import LOCAL, PUBLIC, READS, survey
from .rare_ops import RARE

OPERATIONS = {
    **PUBLIC,
    **{f"engine: {name}": call for name, call in ENGINE.items()},
    **{f"{RARELY}{name}": call for name, call in RARE.items()},
}
WIDTH = scaled(1)
"""How many ways to break each statement in a long run; a commit of a short one is broken in all of them."""
NOT_REPEATABLE = {
    "tokens.login", "jobs.fork", "remote.register", "schedules.run_now", "webhooks.test",
    "engine: rescue", "engine: prune ticks", "engine: remove idle rates", "engine: prune spends",
}  # fmt: skip
"""Each call makes something new, under an id of its own, or goes on where the last one stopped."""

NOT_BROKEN = {
    "put_behind",
    "set_resident",
    "sweep_reservations",
    "trim_frames",
}
"""Writes that need more than one stage can have: order that an older version left, models to load, leaks, floods."""


def _trials(backend: str, name: str, reference: Reference) -> list[tuple[int, Fault]]:
    """Every point, and of Postgres, where a trial takes five times as long, 600 in all; all if the run is wide."""
    points = reference.points
    found = [
        (at, fault) for at, point in enumerate(points) for fault in faults_at(backend, name, point, WIDTH, at + SEED)
    ]
    if backend == "sqlite" or WIDTH > 1:
        return found
    some = min(3 + (_place(name) % 3 == 0), len(found))
    return sorted(random.Random(f"{SEED}{name}").sample(found, some), key=lambda trial: trial[0])


def _place(name: str) -> int:
    """Where it stands among the operations, from where the seed begins."""
    return (list(OPERATIONS).index(name) + SEED) % len(OPERATIONS)


def _some(backend: str, n: int) -> list[tuple[str, str]]:
    """Other ones with another seed."""
    return [(backend, name) for name in sorted(random.Random(SEED).sample(sorted(OPERATIONS), n))]


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    if request.param == "sqlite":
        made: Ground = SqliteGround()
    else:
        databases = request.getfixturevalue("postgres_databases")
        dsn = databases.create(request.getfixturevalue("postgres_template"))
        made = PostgresGround(dsn)
    yield made
    made.close()
    if request.param == "postgres":
        databases.drop(dsn)


def test_every_public_method_has_a_case() -> None:
    assert survey() == PUBLIC.keys() | READS | LOCAL
    assert not PUBLIC.keys() & (READS | LOCAL)


def test_every_statement_that_writes_is_broken_somewhere() -> None:
    """So that a new one is not without a case: a case for it, or its name here."""
    ground, reached = SqliteGround(), set[str]()
    try:
        for call in OPERATIONS.values():
            script, stage = Script(), ground.fresh()
            with breaking(stage.store, script):
                call(stage)
            reached |= {_normal(point) for point in script.points}
    finally:
        ground.close()
    parts = [(part.name, part.sqlite) for one in sql for part in (one, one.then) if part is not None]
    writes = [(name, _normal(text)) for name, text in parts if re.match("insert|update|delete", text)]
    missing = {name for name, text in writes if text not in reached}
    assert (sorted(missing - NOT_BROKEN), sorted(NOT_BROKEN - missing)) == ([], [])


def _normal(text: str) -> str:
    """Without the names or numbers of parameters, and for one row: both depend on how it is called."""
    text = re.sub(r"\s+from \(values .*?\)\) as each", "", text)
    return re.sub(r":\w+|\?\d+|each\.column\d+", "?", text)


@pytest.mark.thorough
@pytest.mark.parametrize(("ground", "name"), [*_some("sqlite", 24), *_some("postgres", 5)], indirect=["ground"])
def test_an_operation_broken_anywhere_is_done_or_not(ground: Ground, name: str) -> None:
    """At one point, chosen by the seed and the name."""
    call, dice = OPERATIONS[name], random.Random(f"{SEED}{name}")
    reference = refer(ground, name, call)
    assert reference.repeatable == (name not in NOT_REPEATABLE) or name.startswith(RARELY)
    if reference.points:
        at = dice.randrange(len(reference.points))
        fault = dice.choice([*faults_at(ground.stage.store.backend, name, reference.points[at], 9, 0)])
        attempt(ground, name, call, reference, at, fault, Tally())


@pytest.mark.proof
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("ground", ["sqlite", "postgres"], indirect=True)
def test_an_operation_broken_at_every_statement_is_done_or_not(ground: Ground, name: str, figure: Figure) -> None:
    tally, backend = Tally(), ground.stage.store.backend
    to_its_end = backend == "sqlite" or WIDTH > 1 or _place(name) % 6 == 0
    reference = refer(ground, name, OPERATIONS[name], to_its_end=to_its_end)
    for at, fault in _trials(backend, name, reference):
        attempt(ground, name, OPERATIONS[name], reference, at, fault, tally)
    print(f"{backend} {name}: {tally}")
    figure(tally.trials, f"interruptions on {backend}")
