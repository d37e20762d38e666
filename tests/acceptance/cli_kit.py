"""The command line, called in this process where another adds nothing, and as a program where it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from holdfast.cli.main import cli

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def call(*arguments: str) -> Answer:
    """Run a command here. The store that it is given stays in this process's environment: tests restore that."""
    done = CliRunner().invoke(cli, arguments, prog_name="holdfast")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answer(done.exit_code, done.stdout, done.stderr)


def program(*arguments: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start `python -m holdfast` in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(process: subprocess.Popen[str], seconds: float = 50) -> Answer:
    out, err = process.communicate(timeout=seconds)
    return Answer(process.returncode, out, err)


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTHONUNBUFFERED": "1"} | variables
