"""A process may die between any two bytes that it writes: each state of the files is a legal one, and work goes on."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.storage.ops.store import verify
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.sqlite.tx import SqliteTx
from holdfast.storage.step import step

from .check import require
from .dials import SEED, Figure, scaled
from .facts import Facts, Shape, read_facts, rows, shape_of
from .scenario import Scenario, Segment, play
from .stage import NOT_SERVED, recover
from .wal import Image

STATES = scaled(5000)
DRAIN_EVERY = 25
"""Each so many commits the work is carried on from there to its end."""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="holdfast-"))
    yield made
    shutil.rmtree(made)


def test_every_prefix_of_the_log_is_a_legal_state(folder: Path) -> None:
    assert _prove(folder, SEED, 200) == 200


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_thousands_of_prefixes_of_logs_are_legal_states(folder: Path, figure: Figure) -> None:
    began, worked, states, seed = time.perf_counter(), time.process_time(), 0, SEED
    while states < STATES:
        states += _prove(folder, seed, STATES - states)
        seed += 1
    rate, alone = states / (time.perf_counter() - began), states / (time.process_time() - worked)
    print(
        f"{states} states of {seed - SEED} runs from seed {SEED}: {rate:.0f} a second, {alone:.0f} on a core of its own"
    )
    figure(states, "states")


def _prove(folder: Path, seed: int, most: int) -> int:
    """Look at each image of one run, the first so many; how many."""
    scenario = play(folder, seed, length=60)
    prover = _Prover(scenario, folder / "image.db")
    for segment in scenario.segments:
        for image in segment.recording.images():
            prover.look(segment, image)
            if prover.states >= most:
                return prover.states
    return prover.states


class _Prover:
    def __init__(self, scenario: Scenario, path: Path) -> None:
        self._scenario = scenario
        self._path = path
        self._before: object = None
        self._commits = 0
        self.states = 0

    def look(self, segment: Segment, image: Image) -> None:
        self.states += 1
        hint = f"PROOF_SEED={self._scenario.seed} pytest tests/chaos -k thousands -m proof (commit {self._commits})"
        segment.recording.write(image, self._path)
        found = _found(self._path, segment.now, verified=image.how == "whole")
        if image.how != "whole":
            # A torn commit is none: exactly what there was before it.
            if self._before is not None:
                assert found.tables == self._before, f"a {image.how} commit has left something: {hint}"
            return
        self._before = found.tables
        self._commits += 1
        seen = tuple(line for at, line in segment.lines if at <= len(image.log))
        require(replace(found, ledger=seen, forgotten=self._scenario.forgotten), hint=hint)
        if self._commits % DRAIN_EVERY == 0:
            self._carry_on(segment, hint)

    def _carry_on(self, segment: Segment, hint: str) -> None:
        stage = self._scenario.stage
        stage.clock = stage.app._clock = ManualClock(segment.now)
        store = SqliteStore(self._path, clock=stage.clock, durable=False)
        store._session()._checkpointer = None
        stage.use(store)
        try:
            recover(stage)
            require(read_facts(store, unserved=NOT_SERVED), drained=True, hint=hint)
        finally:
            store.close()


def _found(path: Path, now: int, *, verified: bool) -> Facts:
    """As SQLite finds the files; without the store, whose opening takes longer than all the rest."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    tx = SqliteTx(connection.cursor(), now)
    try:
        shape = _shape(tx)
        tables = step(rows(tx, shape))
        findings = tuple(step(verify(tx, ()))) if verified else ()
        return Facts(now, tables, findings)
    finally:
        connection.close()


def _shape(tx: SqliteTx) -> Shape:
    if not _SHAPES:
        _SHAPES.append(step(shape_of(tx)))
    return _SHAPES[0]


_SHAPES: list[Shape] = []
