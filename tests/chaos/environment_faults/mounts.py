"""File systems of a scene's own: it runs as a process in a mount namespace, so its mounts vanish with it.

run_scene("tests.chaos.environment_faults.full_disk", folder)     # in a test: the scene's last line, which is JSON
small_disk(mebibytes=4)                             # in the scene
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def run_scene(module: str, folder: Path, *arguments: object, seconds: float = 300) -> dict[str, Any]:
    """Run a module's main in a mount namespace; what it prints last. Fails with all that it said."""
    command = [*_alone(), sys.executable, "-m", module, str(folder), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-8000:]}"
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@functools.cache
def _alone() -> tuple[str, ...]:
    """The command that gives a process mounts of its own: as root, or as root of a user namespace."""
    ways = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))
    for way in ways:
        if subprocess.run([*way, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            return way
    raise AssertionError("these tests mount a small disk of their own: run them as root, or allow user namespaces")


def small_disk(mebibytes: float) -> Path:
    """A disk of so many MiB, for this scene only. Where everybody can reach it: a server is another user."""
    folder = Path("/mnt")
    size = f"size={round(mebibytes * 1024)}k,mode=0777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(folder)], check=True)
    return folder


def remount(folder: Path, how: str) -> bool:
    """Make a disk `ro` or `rw` again; False while somebody keeps it from that."""
    done = subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], capture_output=True)
    return done.returncode == 0


def fill(disk: Path) -> None:
    """Take all that is left of it, to the last byte."""
    with (disk / "filler").open("ab", buffering=0) as filler:
        for size in (65_536, 4_096, 1):
            try:
                while filler.write(bytes(size)):
                    pass
            except OSError:
                continue


def free(disk: Path) -> None:
    (disk / "filler").unlink()
