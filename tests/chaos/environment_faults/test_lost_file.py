"""The database file goes away under a running worker, or may not be written: told by name, and never covered up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.dials import Figure
from tests.chaos.environment_faults.mounts import run_scene

pytestmark = pytest.mark.thorough


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("what", ["moved", "removed", "read_only", "forbidden"])
def test_a_file_that_is_lost_or_forbidden_is_told_by_name_and_nothing_takes_its_place(
    what: str, tmp_path: Path, figure: Figure
) -> None:
    run_scene("tests.chaos.environment_faults.lost_file", tmp_path, what, seconds=600)
    figure(5 if what == "moved" else 1, "files moved, removed or made inaccessible")
