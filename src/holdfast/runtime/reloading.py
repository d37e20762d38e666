"""Runs a worker for development: a process of its own, which is restarted when a Python file has changed.

This process runs none of the program's jobs, so it survives an error in its code: the worker prints the error, and the
next change starts it again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..worker.processes.parent import SUPERVISOR_VARIABLE
from ..worker.processes.supervisor import StopSignals, describe_exit

logger: Final = logging.getLogger("holdfast.worker")

FLAG: Final = "--reload"
GRACE: Final = "2"
"""Seconds for running jobs to finish before a restart, unless the program sets `grace`. The rest run again."""

_EVERY: Final = 0.5
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_NOT_OURS: Final = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})

Files = Mapping[str, tuple[int, int]]
"""Python files with their time of change and their size."""


def run_reloaded(argv: Sequence[str] | None = None, *, sets_grace: bool = False) -> int:
    """Run this very program without --reload until a stop signal; return the exit code. Main thread only."""
    command = own_command() if argv is None else list(argv)
    return Reloader(command, roots_of(sys.path), sets_grace=sets_grace).run()


def own_command() -> list[str]:
    """Return the command line of this process without --reload."""
    return [sys.executable, *(word for word in sys.orig_argv[1:] if word != FLAG)]


def roots_of(path: Iterable[str]) -> list[Path]:
    """Return the folders to watch: the current one, and those of `sys.path` that are not part of an installation."""
    installed = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    found = [Path.cwd(), *(Path(folder).resolve() for folder in path if folder and Path(folder).is_dir())]
    own = [
        folder
        for folder in dict.fromkeys(found)
        if not _NOT_OURS & set(folder.parts) and not installed & {folder, *folder.parents}
    ]
    return [folder for folder in own if not any(other in folder.parents for other in own)]


def python_files(roots: Iterable[Path]) -> Files:
    """Return the Python files in these folders, without hidden folders, virtual environments and installed packages."""
    return {file.path: (stat.st_mtime_ns, stat.st_size) for root in roots for file, stat in _walk(str(root))}


def _walk(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # deleted meanwhile, or not ours to read
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _NOT_OURS:
                    yield from _walk(entry.path)
            elif entry.name.endswith(".py"):
                yield entry, entry.stat()
        except OSError:
            continue


class Reloader:
    """Runs `command`, and starts it again after a change of a Python file in the folders."""

    def __init__(self, command: Sequence[str], roots: Collection[Path], *, sets_grace: bool = False) -> None:
        self._command = list(command)
        self._roots = roots
        self._env = {**os.environ, SUPERVISOR_VARIABLE: str(os.getpid())}
        if not sets_grace:
            self._env.setdefault("HOLDFAST_GRACE", GRACE)

    def run(self) -> int:
        """Run until a stop signal, which the worker gets too."""
        logger.info("watching Python files in %s", ", ".join(map(str, self._roots)))
        with StopSignals((*_STOP_SIGNALS, signal.SIGCHLD)) as signals:
            while True:
                seen = python_files(self._roots)
                process = self._start()
                changed = self._watch(process, seen, signals)
                code = self._end(process, signals)
                if changed is None:
                    return code
                logger.info("%s changed; starting the worker again", changed)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._env)  # noqa: S603 - the command line of this very program

    def _watch(self, process: subprocess.Popen[bytes], seen: Files, signals: StopSignals) -> str | None:
        """Return a file that has changed; None after a stop signal, or when the worker has stopped by itself."""
        ended = False
        while True:
            if set(signals.wait(_EVERY)) & set(_STOP_SIGNALS):
                return None
            if not ended and (code := process.poll()) is not None:
                if code == 0:
                    return None
                ended = True
                logger.warning("the worker %s; it is started again after the next change", describe_exit(code))
            if changed := {file for file, _ in seen.items() ^ python_files(self._roots).items()}:
                return os.path.relpath(min(changed))

    def _end(self, process: subprocess.Popen[bytes], signals: StopSignals) -> int:
        """Stop the worker, which hands its jobs back; a second stop signal is passed on."""
        if process.poll() is None:
            process.terminate()
        while process.poll() is None:
            if set(signals.wait(_EVERY)) & set(_STOP_SIGNALS) and process.poll() is None:
                process.terminate()
        return max(0, process.returncode)
