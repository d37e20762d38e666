"""One suite in a process of its own, and what its report says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from xml.etree import ElementTree

from .suites import Suite

_PATIENCE: Final = 300
"""Seconds that any suite may take, and ten times what it should."""
_TAIL: Final = 6_000
_REASONS: Final = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a suite came to."""

    suite: Suite
    figures: dict[str, float]
    """Numbers by what they count."""
    tests: int
    violations: int
    seconds: float
    output: str = ""
    """Why it broke and the end of what it said, where something did."""

    @property
    def words(self) -> str:
        """The figures in one line."""
        found = ", ".join(f"{_number(value)} {what}" for what, value in self.figures.items())
        return found or f"{self.tests} tests"


def run(suite: Suite, scale: float, seed: int, folder: Path) -> Verdict:
    """Run it to its end, or until it has taken far too long, which is a violation too."""
    stem = suite.name.replace(", ", "-").replace(" ", "-")
    report, log = folder / f"{stem}.xml", folder / f"{stem}.log"
    report.unlink(missing_ok=True)
    # The newer kind of report has no place for figures.
    reporting = ["-o", "junit_family=xunit1", f"--junit-xml={report}"]
    command = [sys.executable, "-m", "pytest", "-m", "proof", "-q", *reporting, *suite.tests]
    surroundings = os.environ | {"PROOF_SCALE": str(scale), "PROOF_SEED": str(seed)}
    began = time.monotonic()
    with log.open("wb") as out:
        code = _wait(command, surroundings, out, _PATIENCE + 10 * suite.seconds * scale)
    took = time.monotonic() - began
    figures, tests, broken = read(report)
    # No report, nothing chosen, or a crash of pytest itself: nothing was proven.
    violations = broken or int(code != 0 or tests == 0)
    return Verdict(suite, figures, tests, violations, took, _essence(log.read_text("utf-8", "replace")))


def _essence(said: str) -> str:
    """Why tests broke, as pytest marks it, and the end; in between may be megabytes."""
    reasons = [line for line in said.splitlines() if line.startswith("E   ")][:_REASONS]
    return "\n".join([*reasons, said[-_TAIL:]])


def _wait(command: list[str], surroundings: dict[str, str], out: IO[bytes], seconds: float) -> int:
    process = subprocess.Popen(command, env=surroundings, stdout=out, stderr=subprocess.STDOUT)
    try:
        return int(process.wait(seconds))
    except subprocess.TimeoutExpired:
        # As Ctrl-C does: pytest then ends what its fixtures have started.
        process.send_signal(signal.SIGINT)
        return int(process.wait(60)) or 1


def read(report: Path) -> tuple[dict[str, float], int, int]:
    """Figures, those of the same thing added up; tests; how many of them broke."""
    if not report.exists():
        return {}, 0, 0
    root = ElementTree.parse(report).getroot()
    cases = list(root.iter("testcase"))
    broken = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    figures: dict[str, float] = {}
    for found in root.iter("property"):
        if found.get("name") == "figure":
            number, _, what = found.get("value", "").partition(" ")
            figures[what] = figures.get(what, 0) + float(number)
    return figures, len(cases), broken


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
