"""The release as its users get it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.release.kit import ROOT, succeed
from tests.release.pythons import present, promised


@pytest.fixture(scope="package")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel, as `make dist` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    # The build's own tools may warn.
    succeed([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], ROOT, PYTHONWARNINGS="default")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = [version for version in promised() if version not in present()]
    terminalreporter.write_line(
        f"Pythons for the wheel: {', '.join(present()) or 'none'}; not on this machine: {', '.join(missing) or 'none'}"
    )
