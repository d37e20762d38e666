"""What is made of the benchmarks' figures: goals, comparisons, plots and pages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import charts, compare, publish
from benchmarks.goals import Goal, goals
from benchmarks.measure import Figure, Latency
from benchmarks.session import Session

QUIET = Console(quiet=True)


def session(**figures: list[float]) -> dict[str, Any]:
    found = Session(settings={"SQLite": {"SQLite": "3"}})
    found.figures = {name.replace("_", "."): Figure(values) for name, values in figures.items()}
    found.distributions = {"sqlite.within": Latency.of([0.001, 0.002, 0.003]).quantiles}
    machine = {"holdfast": "1", "python": "3", "cpus": "2", "processor": "P", "system": "S"}
    return found.content(machine, {"runs": 3, "only": ""})


def row(content: dict[str, Any], key: str) -> dict[str, Any]:
    return next(found for found in content["rows"] if found["key"] == key)


def test_every_goal_has_a_key_of_its_own() -> None:
    keys = [goal.key for goal in goals()]
    assert len(set(keys)) == len(keys)


def test_a_ratio_is_the_median_of_the_pairs_not_the_pair_of_the_medians() -> None:
    content = session(sqlite_drain=[10, 90, 20], sqlite_bare_drain=[10, 100, 40])
    found = row(content, "sqlite.drain / sqlite.bare.drain")
    assert found["values"] == [1.0, 0.9, 0.5]
    assert found["reached"] == 0.9
    assert (found["meets_must"], found["meets_aim"]) == (True, True)


def test_a_goal_for_a_cost_is_met_from_below() -> None:
    goal = Goal(ours="x", store="SQLite", work="x", must=3, fewer=True)
    assert goal.reaches(2.9, goal.must)
    assert not goal.reaches(3.1, goal.must)
    assert goal.reaches(3.1, goal.aim) is None


def test_a_loss_beyond_the_spread_of_both_files_is_worse() -> None:
    old = session(sqlite_drain=[50, 51, 52], sqlite_bare_drain=[100, 100, 100])
    new = session(sqlite_drain=[40, 41, 42], sqlite_bare_drain=[100, 100, 100])
    assert [change.verdict for change in compare.changes(old, new)] == ["worse"]
    assert [change.verdict for change in compare.changes(new, old)] == ["better"]


def test_a_loss_within_the_spread_is_noise() -> None:
    old = session(sqlite_drain=[40, 50, 60], sqlite_bare_drain=[100, 100, 100])
    new = session(sqlite_drain=[35, 42, 55], sqlite_bare_drain=[100, 100, 100])
    assert [change.verdict for change in compare.changes(old, new)] == [""]


def test_a_longer_delay_is_worse_and_the_command_fails(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(session(sqlite_within_p50=[1.0, 1.0, 1.0])), "utf-8")
    new.write_text(json.dumps(session(sqlite_within_p50=[2.0, 2.0, 2.0])), "utf-8")
    assert compare.run(old, new, QUIET) == 1
    assert compare.run(new, old, QUIET) == 0
    assert compare.run(old, old, QUIET) == 0


def test_figures_come_between_their_markers_and_nothing_else_changes() -> None:
    end = "<!-- end of figures -->\n"
    page = f"above\n<!-- figures: a -->\nold\n{end}below\n<!-- figures: b -->\n{end}"
    once, missing = publish.filled(page, {"a": "new"})
    assert once == page.replace("\nold\n", "\n\nnew\n\n")
    assert missing == ["b"]
    assert publish.filled(once, {"a": "new"})[0] == once


def test_a_result_tells_its_goals_and_costs_as_tables() -> None:
    told = publish.tables(session(sqlite_drain=[10_000.0], sqlite_bare_drain=[20_000.0]))
    assert "| SQLite | drain, async no-op | the bare loop | 10,000 | 20,000 | 0.50 × |" in told["goals"]
    assert "| SQLite | claim, run and finish, async | 100 | 50.0 |" in told["costs"]


@pytest.mark.parametrize("name", ["drain", "latency"])
def test_plots_are_well_formed(name: str) -> None:
    drawn = dict(charts.drawn(session(sqlite_drain=[1.0], sqlite_bare_drain=[2.0])))
    assert ElementTree.fromstring(drawn[name]).tag.endswith("svg")
