"""A disk fills up under workers and a producer: a typed refusal, nothing lost, nothing corrupt, and it heals itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.dials import Figure, scaled
from tests.chaos.environment_faults.mounts import run_scene

pytestmark = pytest.mark.thorough


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("kind", "cycles"), [("sqlite", 10), ("postgres", 2)])
def test_a_disk_that_fills_again_and_again_loses_nothing_that_was_acknowledged(
    kind: str, cycles: int, tmp_path: Path, figure: Figure
) -> None:
    told = run_scene(
        "tests.chaos.environment_faults.full_disk", tmp_path, kind, scaled(cycles), seconds=240 + 60 * scaled(cycles)
    )
    assert told["refused"] == 3 * scaled(cycles)
    figure(scaled(cycles), "full disks")
    figure(told["jobs"], "jobs on full disks")
