"""Both type checkers find in `cases/` exactly the errors that its comments announce, and nothing else.

A comment `# error: mypy's codes / pyright's rules` stands on the line of each mistake.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))
ANNOUNCED = re.compile(r"# error: ([\w\- ]+) / ([\w ]+)$")

# By file and line, the kinds of errors there.
Found = dict[tuple[str, int], frozenset[str]]


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_mypy_finds_the_announced_errors_and_no_others() -> None:
    options = ["--strict", "--output=json", "--no-error-summary", "--python-version=3.11"]
    out = _run("mypy", *options, f"--cache-dir={ROOT / '.mypy_cache' / 'cases'}")
    reports = [json.loads(line) for line in out.splitlines()]
    assert _by_line((r["file"], r["line"], r["code"]) for r in reports if r["severity"] == "error") == _announced(0)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_pyright_finds_the_announced_errors_and_no_others() -> None:
    reports: list[dict[str, Any]] = json.loads(_run("pyright", "--outputjson"))["generalDiagnostics"]
    errors = [r for r in reports if r["severity"] == "error"]
    found = _by_line((r["file"], r["range"]["start"]["line"] + 1, r["rule"]) for r in errors)
    assert found == _announced(1)


def test_every_case_announces_at_least_one_error() -> None:
    assert {name for name, _ in _announced(0)} == {path.name for path in CASES}


def _run(checker: str, *options: str) -> str:
    command = [sys.executable, "-m", checker, *options, *map(str, CASES)]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def _announced(which: int) -> Found:
    found: Found = {}
    for path in CASES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := ANNOUNCED.search(line):
                found[path.name, number] = frozenset(match[which + 1].split())
    return found


def _by_line(errors: Any) -> Found:
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for file, line, kind in errors:
        found[Path(file).name, line].add(kind)
    return {place: frozenset(kinds) for place, kinds in found.items()}
