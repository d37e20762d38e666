"""The demo on both stores: it checks itself, so the test looks whether it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli_kit import finished, program


@pytest.mark.timeout(300)
def test_the_demo_accounts_for_every_job(store_url: str, tmp_path: Path) -> None:
    answer = finished(program("demo", "--store", store_url, "--json", folder=tmp_path), 250)
    assert answer.code == 0, answer.err
    summary = answer.data
    assert (summary["jobs"], summary["faults"]) == (2_000, [])
    assert summary["states"] == {"failed": 1, "succeeded": 1_999}
    assert summary["rescued"] >= 1
    assert "kill -9" in answer.err


def test_the_demo_refuses_an_unknown_option(tmp_path: Path) -> None:
    assert finished(program("demo", "--colour", folder=tmp_path)).code == 2


def test_the_demo_leaves_nothing_in_the_current_folder(tmp_path: Path) -> None:
    answer = finished(program("demo", "--store", "postgresql://127.0.0.1:1/none", folder=tmp_path))
    assert answer.code == 5
    assert "error: cannot connect" in answer.err
    assert list(tmp_path.iterdir()) == []
