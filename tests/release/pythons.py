"""The interpreters of this machine that Holdfast's metadata promises to run on."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path

from tests.release.kit import ROOT


def promised() -> list[str]:
    """Return the versions among the classifiers: 3.11, 3.12, …"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"])
    return [match[1] for match in found if match]


def present() -> dict[str, str]:
    """Return the promised versions that are on PATH or under pyenv, with their programs."""
    found = {version: _program(version) for version in promised()}
    return {version: program for version, program in found.items() if program}


def _program(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [*pyenv.glob(f"{version}.*/bin"), *map(Path, os.environ["PATH"].split(os.pathsep))]
    # A shim of pyenv is on PATH for versions that it would refuse to run.
    paths = os.pathsep.join(str(place) for place in places if place.name != "shims")
    return shutil.which(f"python{version}", path=paths)
