"""The test build: a copy of the package with one bug in it, and suites that run against that copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from .mutant import ROOT, SOURCE

# Plugins that take a second to load and have nothing to do here.
_QUICK = ("-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
_SCALE = "0.2"
"""A bug that needs more of the dice than this is looked for by a narrower suite."""
_PATIENCE = 500
# What tells of an edit that makes no program rather than a bug.
_BROKEN = ("syntax error", "SyntaxError", "ImportError", "NameError", "no such column", "no such table")


@dataclass(frozen=True, slots=True)
class Caught:
    """The test that failed, and how."""

    test: str
    how: str


@contextmanager
def build(changed: Mapping[str, str]) -> Iterator[Path]:
    """The folder of a copy of the package in which these files have these texts."""
    with tempfile.TemporaryDirectory(prefix="holdfast-zoo-") as folder:
        package = Path(folder) / "holdfast"
        shutil.copytree(SOURCE, package)
        for file, text in changed.items():
            # Removed, so that no compiled text of the same second and length is taken for it.
            Path(cache_from_source(str(package / file))).unlink(missing_ok=True)
            (package / file).write_text(text)
        yield Path(folder)


def caught_by(folder: Path, suites: Sequence[str], postgres: str = "") -> Caught | None:
    """The first test that fails in that build; None where all pass."""
    report = folder / "report.xml"
    done = run(folder, ["-x", f"--junitxml={report}", *suites], postgres)
    if done.returncode == 0:
        return None
    failed = list(_failures(report)) if report.exists() else []
    assert done.returncode == 1 and failed, f"no test failed, but the run broke:\n{done.stdout[-4000:]}{done.stderr}"
    assert not any(word in failed[0].how for word in _BROKEN), f"the edit makes no program: {failed[0]}"
    return failed[0]


def run(folder: Path, arguments: Sequence[str], postgres: str = "") -> subprocess.CompletedProcess[str]:
    """Pytest, with the package from that folder, in this process's children too."""
    known = {**os.environ, "PYTHONPATH": str(folder), "PROOF_SEED": "1", "PROOF_SCALE": _SCALE}
    if postgres:
        known["HOLDFAST_TEST_POSTGRES"] = postgres
    command = [
        sys.executable,
        "-m",
        "pytest",
        *_QUICK,
        "-o",
        f"pythonpath={folder} .",
        "-o",
        "junit_family=xunit1",
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, timeout=_PATIENCE, check=False)


def _failures(report: Path) -> Iterator[Caught]:
    """Failed tests, without those that could not even begin."""
    for case in ET.parse(report).iter("testcase"):
        for failure in case.iter("failure"):
            how = " ".join(failure.get("message", "").split())
            yield Caught(f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}", how[:200])
