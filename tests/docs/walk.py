"""Follow a tutorial as a reader does: write its files, type its commands, and compare what they print."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.docs.pages import Block, matches

# Of the machine, not of Holdfast.
_SET_UP = ("pip ", "mkdir ", "cd ", "python -m venv", ". .venv", "source ")
# What runs until it is interrupted, in a terminal of its own.
_RUNNING_ON = ("holdfast worker", "python manage.py holdfast_worker", "uvicorn ")
# The port that the pages show; the run takes a free one.
_SHOWN_PORT = "8000"
_CURL = """
import sys, urllib.request
method = sys.argv[sys.argv.index("-X") + 1] if "-X" in sys.argv else "GET"
with urllib.request.urlopen(urllib.request.Request(sys.argv[-1], method=method), timeout=60) as response:
    print(response.read().decode())
"""


def walk(blocks: Sequence[Block], folder: Path, env: dict[str, str]) -> None:
    port = _free_port()
    reader = Reader(folder, {**env, "UVICORN_PORT": port})
    try:
        for shown in blocks:
            block = replace(shown, text=shown.text.replace(f":{_SHOWN_PORT}", f":{port}"))
            if block.language == "python":
                with (folder / block.file).open("a" if block.is_appended else "w", encoding="utf-8") as file:
                    file.write(block.text)
            elif block.language == "console":
                for command, shown in block.commands():
                    reader.type(command, shown, block)
    finally:
        reader.leave()


class Reader:
    """Has a terminal for commands, and another for each worker or server."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = {**env, "PATH": f"{_commands(folder)}{os.pathsep}{env['PATH']}", "COLUMNS": "120"}
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._terminals = 0

    def type(self, command: str, shown: str, block: Block) -> None:
        if command.startswith(_SET_UP):
            return
        if command == "^C":
            code, log = self._end(signal.SIGINT)
            # Uvicorn ends by the signal that it got.
            assert code in (0, -signal.SIGINT), f"{block.place}: {code} {log.read_text()}"
        elif command == "^\\":
            self._end(signal.SIGQUIT)
        elif command.startswith(_RUNNING_ON):
            self._start(command, shown, block)
        else:
            self._run(command, shown, block)

    def leave(self) -> None:
        while self._running:
            self._end(signal.SIGKILL)

    def _run(self, command: str, shown: str, block: Block) -> None:
        done = subprocess.run(
            shlex.split(command), cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{block.place}: {command} failed:\n{done.stdout}{done.stderr}"
        assert matches(shown, done.stdout), f"{block.place}: {command} printed\n{done.stdout}\nnot\n{shown}"

    def _start(self, command: str, shown: str, block: Block) -> None:
        self._terminals += 1
        path = self._folder / f"terminal-{self._terminals}.log"
        with path.open("wb") as log:
            started = subprocess.Popen(shlex.split(command), cwd=self._folder, env=self._env, stderr=log, stdout=log)
        self._running.append((started, path))
        deadline = time.monotonic() + 60
        while not matches(shown.rstrip() + "…", path.read_text()):
            assert time.monotonic() < deadline, f"{block.place}: {command} said\n{path.read_text()}\nnot\n{shown}"
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> tuple[int, Path]:
        """End what was started last."""
        process, log = self._running.pop()
        process.send_signal(how)
        return process.wait(40), log


def _commands(folder: Path) -> Path:
    """A folder with the commands of the pages, for where they are not installed under these names."""
    bin = folder / "bin"
    bin.mkdir()
    (bin / "curl.py").write_text(_CURL)
    modules = {"python": "", "holdfast": "-m holdfast", "uvicorn": "-m uvicorn", "curl": str(bin / "curl.py")}
    for name, module in modules.items():
        script = bin / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        script.chmod(0o755)
    assert shutil.which("python", path=str(bin))
    return bin


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])
