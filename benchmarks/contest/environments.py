"""A virtual environment for each peer, so that one's dependencies never hold another back."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import holdfast

from .catalogue import Entry

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".venv-peers"
_NEWER: Final = ("python3.12", "python3.13", "python3.14")


class Missing(Exception):
    """Why a peer cannot take part."""


def require(entry: Entry) -> None:
    """Missing, unless what the peer needs besides its package is here."""
    if entry.needs == "redis" and redis_server() is None:
        raise Missing("no redis-server on PATH")
    if entry.key == "absurd" and not Path(os.environ.get("ABSURD_SQL", "-")).is_file():
        raise Missing("its schema is in no package: set ABSURD_SQL to the path of its sql/absurd.sql")


def prepare(entry: Entry) -> Path:
    """The folder of an environment that has the peer; made now if there is none."""
    require(entry)
    if entry.ours:
        return Path(sys.prefix)
    folder = FOLDER / entry.packages[0].partition("[")[0] / entry.needs
    done = folder / ".done"
    if done.exists() and done.read_text("utf-8") == " ".join(entry.packages):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    _run([_python(entry), "-m", "venv", "--without-pip", str(folder)])
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python"),
          "install", "--quiet", *entry.packages])  # fmt: skip
    done.write_text(" ".join(entry.packages), "utf-8")
    return folder


def installed(entry: Entry) -> Path:
    """The folder of its environment, if it was made before."""
    folder = FOLDER / entry.packages[0].partition("[")[0] / entry.needs
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
    return shutil.which("redis-server") or shutil.which("valkey-server")


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
