"""The table of mutants, after everything else that a run prints."""

from __future__ import annotations

import pytest

from .table import Table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lines := Table.lines():
        terminalreporter.section("mutants")
        for line in lines:
            terminalreporter.line(line)
