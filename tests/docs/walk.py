"""Follow a tutorial as a reader does: write its files, type its commands, and compare what they print."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.docs.pages import Block, matches

# Of the machine, not of Holdfast.
_SET_UP = ("pip ", "mkdir ", "cd ", "python -m venv", ". .venv", "source ")


def walk(blocks: Sequence[Block], folder: Path, env: dict[str, str]) -> None:
    reader = Reader(folder, env)
    try:
        for block in blocks:
            if block.language == "python":
                with (folder / block.file).open("a" if block.is_appended else "w", encoding="utf-8") as file:
                    file.write(block.text)
            elif block.language == "console":
                for command, shown in block.commands():
                    reader.type(command, shown, block)
    finally:
        reader.leave()


class Reader:
    """Has a terminal for commands, and a second one in which a worker runs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = {**env, "PATH": f"{_commands(folder)}{os.pathsep}{env['PATH']}", "COLUMNS": "120"}
        self._worker: subprocess.Popen[bytes] | None = None
        self._log = folder / "worker.log"

    def type(self, command: str, shown: str, block: Block) -> None:
        if command.startswith(_SET_UP):
            return
        if command == "^C":
            assert self._end(signal.SIGINT) == 0, f"{block.place}: {self._log.read_text()}"
        elif command == "^\\":
            self._end(signal.SIGQUIT)
        elif command.startswith(("holdfast worker", "python manage.py holdfast_worker")):
            self._start(command, shown, block)
        else:
            self._run(command, shown, block)

    def leave(self) -> None:
        if self._worker is not None:
            self._end(signal.SIGKILL)

    def _run(self, command: str, shown: str, block: Block) -> None:
        done = subprocess.run(
            shlex.split(command), cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{block.place}: {command} failed:\n{done.stdout}{done.stderr}"
        assert matches(shown, done.stdout), f"{block.place}: {command} printed\n{done.stdout}\nnot\n{shown}"

    def _start(self, command: str, shown: str, block: Block) -> None:
        with self._log.open("wb") as log:
            self._worker = subprocess.Popen(
                shlex.split(command), cwd=self._folder, env=self._env, stderr=log, stdout=log
            )
        deadline = time.monotonic() + 60
        while not matches(shown.rstrip() + "…", self._log.read_text()):
            assert time.monotonic() < deadline, f"{block.place}: the worker said\n{self._log.read_text()}\nnot\n{shown}"
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> int:
        assert self._worker is not None
        self._worker.send_signal(how)
        code = self._worker.wait(40)
        self._worker = None
        return code


def _commands(folder: Path) -> Path:
    """A folder with `python` and `holdfast`, for where they are not installed under these names."""
    bin = folder / "bin"
    bin.mkdir()
    for name, module in (("python", ""), ("holdfast", "-m holdfast")):
        script = bin / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        script.chmod(0o755)
    assert shutil.which("python", path=str(bin))
    return bin
